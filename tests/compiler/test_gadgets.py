"""Lemmas A, B and C, and the reciprocal: each gadget alone in a model, against the formula."""

import numpy as np
import pytest
import torch

from ridgeformer.compiler.backends import gadgets
from ridgeformer.compiler.backends.dual import DualLowering
from ridgeformer.compiler.circuit import SUPPORT, whole
from ridgeformer.compiler.passes import assemble, erase, place, reuse
from ridgeformer.program.tables import reciprocal_table
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.transformer import Record

K, P, R = 12, 5, 2


@pytest.fixture(params=["relu", "reglu"])
def bench(request):
    return Bench(request.param)


class Bench:
    """A lowering to build gadgets in, and the stream that the finished model leaves behind."""

    def __init__(self, mlp):
        self.mlp = mlp
        self.lowering = DualLowering(outputs=R, features=P, gated=mlp == "reglu")
        self.s, self.phi, self.y = self.lowering.s, self.lowering.phi, self.lowering.y
        self.s.kept.add(self.y)
        self.prompt = PrescribedSpectrum(features=P, supports=K, outputs=R).draw(3, seed=0)

    def stream(self, *kept):
        self.s.kept.update(kept)
        self.lowering.read(1, None, kept[0])
        circuit = erase(reuse(self.s.circuit(self.phi, self.y, silence=2.0**40)))
        placement = place(circuit)
        self.columns = {cell: list(where) for cell, where in placement.columns.items()}
        model = assemble(
            circuit, placement, attention="linear", causal=False, gated=self.mlp == "reglu",
            dtype="float64",
        )  # fmt: skip
        last = f"blocks.{model.config.n_layers - 1}.resid_post"
        record = Record.of([last])
        with torch.no_grad():
            model(self.prompt.tokens(), K + 1, [record])
        stream = record.values[last]
        # Gadgets leave the inputs alone, at every token that has them.
        assert torch.equal(stream[:, :K, self.columns[self.phi]], self.prompt.phi)
        assert torch.equal(stream[:, K + 1 :, self.columns[self.phi]], self.prompt.phi_query)
        assert torch.equal(stream[:, :K, self.columns[self.y]], self.prompt.y)
        return stream

    def scalar(self):
        """‖y‖² per output at the aggregator."""
        return gadgets.reduction(self.s, whole(self.y), whole(self.y), None, "yy")

    @property
    def squares(self):
        return self.prompt.y.square().sum(1)


def test_lemma_a_the_mat_vec(bench):
    out = gadgets.matvec(bench.s, bench.phi, whole(bench.y), "Ky")
    stream, prompt = bench.stream(out), bench.prompt
    expected = prompt.phi @ (prompt.phi.mT @ prompt.y)
    torch.testing.assert_close(stream[:, :K, bench.columns[out]], expected)
    at_queries = prompt.phi_query @ (prompt.phi.mT @ prompt.y)
    torch.testing.assert_close(stream[:, K + 1 :, bench.columns[out]], at_queries)
    assert stream[:, K, bench.columns[out]].abs().max() == 0
    heads = {id(head) for head in bench.s.heads}
    assert len(heads) == 1, "all outputs share one head"


def test_lemma_b_reductions_land_at_the_aggregator(bench):
    out = bench.scalar()
    stream = bench.stream(out)
    torch.testing.assert_close(stream[:, K, bench.columns[out]], bench.squares)


def test_lemma_b_a_reduction_carries_a_scale(bench):
    yy = bench.scalar()
    out = gadgets.reduction(bench.s, whole(bench.y), whole(bench.y), whole(yy), "yyyy")
    stream = bench.stream(out)
    torch.testing.assert_close(stream[:, K, bench.columns[out]], bench.squares**2)


def test_lemma_b_broadcasts_a_product_of_two_scalars(bench):
    yy = bench.scalar()
    square = gadgets.product(bench.s, [whole(yy), whole(yy)], "t", R)
    time = bench.s.attention_time([whole(square)])
    out = bench.s.new("out", "data", R, time)
    gadgets.broadcast(bench.s, time, whole(yy), whole(square), whole(bench.y), out, R, "out")
    stream = bench.stream(out)
    expected = bench.prompt.y * (bench.squares**3)[:, None]
    torch.testing.assert_close(stream[:, :K, bench.columns[out]], expected)
    assert stream[:, K + 1 :, bench.columns[out]].abs().max() == 0


def test_lemma_c_updates_are_exact_and_local(bench):
    time = bench.s.mlp_time([whole(bench.y)])
    out = bench.s.new("out", "data", R, time)
    gadgets.update(bench.s, time, whole(bench.y, -3.0), out, SUPPORT, "out")
    stream = bench.stream(out)
    assert torch.equal(stream[:, :K, bench.columns[out]], -3.0 * bench.prompt.y)
    assert stream[:, K:, bench.columns[out]].abs().max() == 0


def test_clamp_and_hold(bench):
    yy = bench.scalar()
    middle = float(bench.squares.median())
    low = gadgets.clamp(bench.s, yy, 0.9 * middle, 1.1 * middle, "clamped")
    held = gadgets.hold(bench.s, yy, middle * 0.99, middle * 1.01, "held")
    stream = bench.stream(low, held)
    x = bench.squares
    torch.testing.assert_close(
        stream[:, K, bench.columns[low]], x.clamp(0.9 * middle, 1.1 * middle)
    )
    found = stream[:, K, bench.columns[held]]
    assert found[x < 0.98 * middle].abs().max() < 1e-12 * middle
    above = x > 1.02 * middle
    torch.testing.assert_close(found[above], x[above])


def test_the_reciprocal_is_exact_to_round_off(bench):
    yy = bench.scalar()
    lo, hi = float(bench.squares.min()) / 50, float(bench.squares.max()) * 50
    correction = reciprocal_table(lo, hi)
    guess = gadgets.table(bench.s, yy, correction.table, "z")
    inverse = gadgets.Inverse(bench.s, guess, yy, correction)
    absorbed = inverse.u(yy)  # x·U, to be multiplied by W: x·(1/x) = 1
    one = gadgets.product(bench.s, [whole(absorbed), whole(inverse.w)], "one", R)
    plain = inverse.value()
    stream = bench.stream(one, plain)
    np.testing.assert_allclose(stream[:, K, bench.columns[one]].numpy(), 1, rtol=1.5e-15)
    np.testing.assert_allclose(
        (stream[:, K, bench.columns[plain]] * bench.squares).numpy(), 1, rtol=1.5e-15
    )


def test_a_mat_vec_refuses_a_vector_that_is_not_zero_at_the_queries(bench):
    out = gadgets.matvec(bench.s, bench.phi, whole(bench.y), "Ky")
    with pytest.raises(AssertionError, match="must vanish at the queries"):
        gadgets.matvec(bench.s, bench.phi, whole(out), "KKy")
