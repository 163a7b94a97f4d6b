"""What every family that writes all positions at once must hold to, whichever way it writes."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tfm_cli.families import FAMILIES
from tfm_cli.model import build_family
from tfm_cli.nonautoregressive.family import NonAutoregressive
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions, NonAutoregressiveOptions
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.dropout import Dropout, keep_mask
from tfm_cli.transformer.packing import ROWS
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import BEGIN, BLANK, END, MASK, PAD

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=2, dropout=0.1)
VOCAB = 30
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("oneshot", {}, {}),
    ("oneshot", {"length": "predict"}, {"length_scale": 1.5, "length_beam": 3}),
    ("oneshot", {"glancing": True}, {}),
    ("maskpredict", {}, {"iterations": 3, "length_beam": 2}),
    ("ctc", {}, {}),
    ("ctc", {"glancing": True}, {"ctc_beam": 4}),
    ("dag", {}, {}),
    ("dag", {"glancing": True}, {"paths": "greedy"}),
    ("dag", {}, {"paths": "viterbi"}),
]
every_case = pytest.mark.parametrize(("name", "settings", "decode"), CASES)


def made(name: str, settings: dict[str, Any]) -> NonAutoregressive:
    torch.manual_seed(5)
    family = build_family(name, SHAPE, VOCAB, VOCAB, settings)
    assert isinstance(family, NonAutoregressive)
    with torch.no_grad():
        family.network.target_embedding.weight.normal_()[[BEGIN, MASK, BLANK]] = 0  # else one word stood everywhere
    return family


def sources(count: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(2)
    lengths = torch.randint(1, 12, (count,), generator=draw).tolist()
    return [[*torch.randint(5, VOCAB, (n,), generator=draw).tolist(), END] for n in lengths]


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "autoregressive"])
def test_the_class_obeys_what_the_table_says_and_its_constructor_takes_it(name: str) -> None:
    entry = FAMILIES[name]
    assert entry.load().obeys == entry.obeys
    names = {f for options in (NonAutoregressiveOptions, NonAutoregressiveDecodeOptions) for f in _fields(options)}
    assert entry.obeys <= names | {"label_smoothing"}
    defaults = NonAutoregressiveOptions()
    settings = {name: getattr(defaults, name) for name in _fields(NonAutoregressiveOptions) & entry.obeys}
    build_family(name, SHAPE, VOCAB, VOCAB, settings)


def test_every_option_of_these_families_is_obeyed_by_one() -> None:
    names = _fields(NonAutoregressiveOptions) | _fields(NonAutoregressiveDecodeOptions)
    assert names <= frozenset().union(*(entry.obeys for entry in FAMILIES.values()))


@every_case
def test_a_batch_of_64_gives_what_64_batches_of_one_give(
    name: str, settings: dict[str, Any], decode: dict[str, Any]
) -> None:
    family, options = made(name, settings).eval(), NonAutoregressiveDecodeOptions(**decode)
    given = sources(64)
    together = [hypotheses[0] for hypotheses in family.decode(pad(given), options)]
    for source, hypothesis in zip(given, together, strict=True):
        alone = family.decode(pad([source]), options)[0][0]
        assert alone.tokens == hypothesis.tokens
        assert alone.finished == hypothesis.finished
        assert alone.score == pytest.approx(hypothesis.score, abs=1e-4)
        assert alone.token_log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-3)


@every_case
def test_translations_hold_no_control_token_and_terms_that_add_up(
    name: str, settings: dict[str, Any], decode: dict[str, Any]
) -> None:
    family = made(name, settings).eval()
    for hypotheses in family.decode(pad(sources(16)), NonAutoregressiveDecodeOptions(**decode)):
        assert len(hypotheses) == 1
        assert not {PAD, BEGIN, END, MASK, BLANK} & set(hypotheses[0].tokens)
        assert hypotheses[0].log_prob == pytest.approx(sum(hypotheses[0].token_log_probs), abs=1e-4)
        assert len(hypotheses[0].token_log_probs) == len(hypotheses[0].tokens) + hypotheses[0].finished


@every_case
def test_the_loss_of_a_batch_is_the_sum_of_its_pairs(
    name: str, settings: dict[str, Any], decode: dict[str, Any]
) -> None:
    family = made(name, settings).eval()
    given = sources(8)
    whole = family.loss(Batch.of(given, given[::-1]), 1.0)
    parts = [family.loss(Batch.of([s], [t]), 1.0) for s, t in zip(given, given[::-1], strict=True)]
    assert whole.count == sum(part.count for part in parts)
    for figure in ("sum", "nll"):
        total, pieces = _figure(whole, figure), [_figure(part, figure) for part in parts]
        assert total == pytest.approx(sum(pieces), rel=1e-3)


class _Products(TorchDispatchMode):
    """Notes the sizes of all products of two tables."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            self.sizes |= {size for x in args if isinstance(x, torch.Tensor) and x.dim() == 2 for size in x.shape}
        return func(*args, **(kwargs or {}))


@every_case
def test_products_of_a_training_have_few_shapes(name: str, settings: dict[str, Any], decode: dict[str, Any]) -> None:
    family, given = made(name, settings).to(torch.bfloat16).train(), sources(40)
    for batch in (Batch.of(given, given[::-1]).packed(), Batch.of(given[:31], given[1:32]).packed()):
        with _Products() as products:
            family.loss(batch, 0.0).sum.backward()
        of_weights = {size for weight in family.parameters() if weight.dim() == 2 for size in weight.shape}
        others = products.sizes - of_weights - {len(batch.source)}  # of which there are few, for the length
        assert all(size % ROWS == 0 for size in others)


@every_case
def test_packed_batches_have_the_loss_and_gradients_of_padded_ones(
    name: str, settings: dict[str, Any], decode: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    family, batch = made(name, settings).train(), Batch.of([*sources(6), [7, END]], [*sources(6)[::-1], [END]])
    for module in family.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    packed = _learnt(family, batch.packed())
    monkeypatch.setattr(family, "encode", lambda batch: family.network.encode(batch.source))
    padded = _learnt(family, batch)
    assert packed.keys() == padded.keys()
    for figure, value in padded.items():
        torch.testing.assert_close(packed[figure], value, rtol=1e-3, atol=1e-4, msg=figure)


def _learnt(family: NonAutoregressive, batch: Batch) -> dict[str, torch.Tensor]:
    """Loss, negative log-likelihood and all gradients."""
    family.zero_grad()
    torch.manual_seed(3)
    report = family.loss(batch, 0.0)
    report.sum.backward()
    gradients = {name: p.grad for name, p in family.named_parameters() if p.grad is not None}
    return {"sum": report.sum.detach(), "nll": report.parts["nll"].detach(), **gradients}


@pytest.mark.parametrize(("name", "settings"), [(name, given) for name, given, _ in CASES if "glancing" in given])
def test_the_pass_that_learns_has_the_dropout_of_the_first_look(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    family, masks = made(name, settings).train(), []

    def noted(shape: torch.Size, p: float) -> tuple[torch.Tensor, float]:
        masks.append(keep_mask(shape, p)[0])
        return masks[-1], 1.0

    batch = Batch.of(sources(6), sources(6)[::-1])
    encoded = family.encode(batch)
    monkeypatch.setattr(family, "encode", lambda batch: encoded)
    monkeypatch.setattr("tfm_cli.transformer.dropout.keep_mask", noted)
    family.loss(batch, 0.0)
    half = len(masks) // 2
    assert half >= 2 * SHAPE.decoder_layers
    assert all(torch.equal(first, second) for first, second in zip(masks[:half], masks[half:], strict=True))


@every_case
def test_it_learns_in_bfloat16_what_it_learns_in_float32(
    name: str, settings: dict[str, Any], decode: dict[str, Any]
) -> None:
    losses = []
    for dtype in (torch.float32, torch.bfloat16):
        family, batch = made(name, settings).to(dtype).train(), Batch.of(sources(6), sources(6)[::-1]).packed()
        torch.manual_seed(0)
        report = family.loss(batch, 0.0)
        report.sum.backward()
        gradients = [p.grad for p in family.parameters() if p.grad is not None]
        assert gradients and all(gradient.isfinite().all() for gradient in gradients)
        losses.append(float(report.sum.detach()) / report.count)
    if not settings.get("glancing"):  # which shows other words, where roundings differ
        assert losses[1] == pytest.approx(losses[0], rel=0.1)


@every_case
def test_no_batch_at_all(name: str, settings: dict[str, Any], decode: dict[str, Any]) -> None:
    assert made(name, settings).eval().decode(pad([])[:0], NonAutoregressiveDecodeOptions(**decode)) == []


def _fields(options: type) -> frozenset[str]:
    return frozenset(options.__dataclass_fields__)  # type: ignore[attr-defined]


def _figure(report: Any, name: str) -> float:
    return float((report.sum if name == "sum" else report.parts[name]).detach())
