"""Errors in bounds that what is measured is far below, so that only their formulas tell."""

from mutants.mutant import Mutant

COMPILED_CG = "tests/theory/test_theorems_of_compiled_cg.py"
QUOTIENTS = "tests/theory/test_theorems_of_quotients.py"

MUTANTS = (
    Mutant(
        "angles-without-root",
        "theory/inexact_cg.py",
        "                + q * gamma\n",
        "                + gamma\n",
        "The angle of a direction of inexact CG is carried on without √κ.",
        (),
        ("tests/theory/test_inexact_cg.py::test_the_recursion_is_that_of_the_theorem",),
    ),
    Mutant(
        "growth-with-condition-unsquared",
        "theory/inexact_scalars.py",
        "(14 * condition**2) ** (t - 1)",
        "(14 * condition) ** (t - 1)",
        "The growth of errors of quotients that is known in advance has κ in place of κ².",
        (),
        (f"{QUOTIENTS}::test_the_growth_in_advance_has_its_constants",),
    ),
    Mutant(
        "half-of-the-couplings",
        "theory/inexact_scalars.py",
        "nu = (2 * torch.stack(pairs).sum(0)).sqrt()",
        "nu = torch.stack(pairs).sum(0).sqrt()",
        "The norm of the couplings of CG's directions counts each pair once instead of twice.",
        (),
        (f"{QUOTIENTS}::test_what_is_beyond_first_order_is_that_of_the_couplings",),
    ),
    Mutant(
        "normaliser-of-the-query-uncounted",
        "theory/compiled_cg.py",
        "factor = grown + errors.normaliser * (1 + grown)",
        "factor = grown",
        "What is known in advance of CG behind softmax forgets the normaliser at the query.",
        (),
        (f"{COMPILED_CG}::test_the_querys_own_normaliser_is_counted_in_advance",),
    ),
    Mutant(
        "tokens-to-first-order",
        "theory/compiled_cg.py",
        "known = tokens.prediction[t] + linear + remainder[t]",
        "known = linear + remainder[t]",
        "What the tokens' errors do to a prediction of CG is bounded to first order only.",
        (),
        (f"{COMPILED_CG}::test_second_order_errors_of_tokens_are_counted",),
    ),
    Mutant(
        "residual-without-ridge",
        "theory/compiled_fixed.py",
        "prompt.y.double() - products - ridge * alphas[:-1]",
        "prompt.y.double() - products",
        "The residual that errors of Jacobi's preconditioner multiply lacks λα.",
        (),
        (
            "tests/theory/test_theorems_of_compiled_fixed.py::test_what_reciprocals_multiply_is_measured_on_the_iterates",
        ),
    ),
    Mutant(
        "updates-of-one-iterate",
        "theory/heads_fixed.py",
        "multiplied * product + 2 * update * most * centre",
        "multiplied * product + update * most * centre",
        "The round-off of an update counts one of the two iterates that it reads.",
        (),
        (
            "tests/theory/test_theorems_of_heads_fixed.py::test_the_bound_of_heads_is_that_of_the_theorem",
        ),
    ),
    Mutant(
        "sums-of-fewer-tokens",
        "theory/set_up.py",
        "accumulated(4 * supports + 10, DOUBLE)",
        "accumulated(supports + 10, DOUBLE)",
        "The round-off of the weights of a head counts k + 10 operations in place of 4k + 10.",
        (),
        ("tests/theory/test_width_law.py::test_what_heads_round_is_that_of_the_theorem",),
    ),
)
