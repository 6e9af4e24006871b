"""The names of the package and where they live: read by `__init__.py`, and by whoever checks types."""

from ridgeformer.baselines import (
    Baseline as Baseline,
)
from ridgeformer.compiler import (
    CompiledModel as CompiledModel,
    Exact as Exact,
    HeadPairs as HeadPairs,
    Interpolated as Interpolated,
    LinearAttention as LinearAttention,
    NoPromise as NoPromise,
    SoftmaxAttention as SoftmaxAttention,
    compile as compile,
    size_report as size_report,
)
from ridgeformer.experiments import (
    SolverReport as SolverReport,
    evaluate as evaluate,
    identify as identify,
    verify_solver as verify_solver,
)
from ridgeformer.export import (
    GPT2 as GPT2,
    Exporter as Exporter,
    prefix_mask as prefix_mask,
)
from ridgeformer.kernels import (
    Exponential as Exponential,
    FeatureMap as FeatureMap,
    Gaussian as Gaussian,
    Kernel as Kernel,
    Linear as Linear,
    Logits as Logits,
    Monomial as Monomial,
    Polynomial as Polynomial,
)
from ridgeformer.models import (
    FromGPT2 as FromGPT2,
    GPT2Subject as GPT2Subject,
    Importer as Importer,
    ModuleSubject as ModuleSubject,
    Reading as Reading,
    Subject as Subject,
    load as load,
    reference as reference,
    residual_stream as residual_stream,
    subject as subject,
    trajectory as trajectory,
)
from ridgeformer.program import (
    interpret as interpret,
    trace as trace,
)
from ridgeformer.registry import (
    register as register,
)
from ridgeformer.solvers import (
    BlockCG as BlockCG,
    Chebyshev as Chebyshev,
    ConjugateGradient as ConjugateGradient,
    GradientDescent as GradientDescent,
    GradientDescentPlus as GradientDescentPlus,
    HeavyBall as HeavyBall,
    IterativeNewton as IterativeNewton,
    Machine as Machine,
    NadarayaWatson as NadarayaWatson,
    Richardson as Richardson,
    Solver as Solver,
    condition_number as condition_number,
    effective_dimension as effective_dimension,
    krr as krr,
    solve as solve,
)
from ridgeformer.tasks import (
    KernelDraw as KernelDraw,
    LearnableTask as LearnableTask,
    PrescribedSpectrum as PrescribedSpectrum,
    Prompt as Prompt,
    Task as Task,
)
from ridgeformer.training import (
    OutsideTraining as OutsideTraining,
    Recipe as Recipe,
    TrainedModel as TrainedModel,
)
from ridgeformer.transformer import (
    Record as Record,
    Transformer as Transformer,
    TransformerConfig as TransformerConfig,
    ablate as ablate,
    ablate_head as ablate_head,
)
from ridgeformer.types import (
    Refusal as Refusal,
    Trajectory as Trajectory,
)

__version__: str
