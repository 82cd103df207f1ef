"""What the likelihood metrics share: the settings of prompts, what they may be, and loading."""

from __future__ import annotations

from typing import ClassVar, Literal

from ...errors import InputError, ModelLoadError
from ...storage import checksums
from ...text.few_shot import SEPARATOR, FewShotExamples, read_examples, warn_of_two_blanks
from ...text.prompt_template import SOURCE, TARGET_CONTEXT, Template
from ..models.causal_lm import CausalLM
from ..models.context_tokens import PlainTexts, control_tokens
from ..models.files import model_files
from ..models.pretrained import pretrained, tokenizer_of
from ..models.settings import ModelMetric
from .causal_scorer import Loaded, Normalize
from .few_shot_prompts import REFERENCE, Given, Prompts
from .sequences import End, SequenceReader

LINE_BREAK = "\n"
# The longest sequence if none is set, where the model has positions for more.
MAX_TOKENS = 4096
# The prompt, by what is given.
DEFAULT_PROMPTS: dict[str, str] = {
    "nothing": "",
    "context": "{target_context} ",
    "source": "{source} = ",
    "source+context": "{source} = ",
    "reference": "{reference} In other words: ",
}
# Fields that a prompt must have, and no others.
FIELDS: dict[str, frozenset[str]] = {
    "nothing": frozenset(),
    "context": frozenset({TARGET_CONTEXT}),
    "source": frozenset({SOURCE}),
    "source+context": frozenset({SOURCE}),
    "reference": frozenset({REFERENCE}),
}


class CausalMetric(ModelMetric):
    """What both metrics share: prompts, examples and loading."""

    default_model: ClassVar[str] = "smollm2"
    counts_passes: ClassVar[bool] = True
    prompt: str | None
    examples: str | None
    separator: str | None
    normalize: Normalize
    end: End
    start: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_prompt()
        if self.separator == "":
            raise InputError("separator is empty", where=self.name, fix="Leave it out, or give one")
        if self.examples and self.prompts_given not in ("source", "source+context", "reference"):
            problem = f"examples are pairs, and given={self.prompts_given!r} has no use for them"
            raise InputError(problem, where=self.name, fix='Set given="source", or leave them out')
        if self.normalize == "pmi" and self.prompts_given == "nothing":
            fix = "Set given=, or another normalize"
            raise InputError("pmi of a text given nothing is 0", where=self.name, fix=fix)

    @property
    def prompts_given(self) -> Given | Literal["reference"]:
        """What prompts tell."""
        return "reference"

    @property
    def template(self) -> Template:
        """That of the prompt."""
        text = DEFAULT_PROMPTS[self.prompts_given] if self.prompt is None else self.prompt
        return Template(text, f"{self.name}: prompt")

    @property
    def separates(self) -> str:
        """What stands behind a target."""
        if self.separator is not None:
            return self.separator
        has_examples = self.examples or self.prompts_given == "source+context"
        return SEPARATOR if has_examples else LINE_BREAK

    def _check_prompt(self) -> None:
        """Raises InputError for a template with other fields than what is given."""
        wanted, fields = FIELDS[self.prompts_given], self.template.fields
        if wanted != fields:
            names = ", ".join(f"{{{name}}}" for name in sorted(wanted)) or "none"
            others = ", ".join(f"{{{name}}}" for name in sorted(fields)) or "none"
            raise InputError(
                f"the prompt has the fields {others}, expected {names}",
                where=f"{self.name}: given={self.prompts_given!r}",
                fix="Write the prompt for what is given, or change given=",
            )

    @property
    def file_settings(self) -> tuple[str, ...]:
        """Settings that name files."""
        return ("model", "examples") if self.examples else ("model",)

    def _digest(self, name: str) -> str:
        if name == "model":
            return super()._digest(name)
        return checksums.check_file(self.named(name)).rpartition(model_files.MARK)[2]

    def _loaded(self) -> Loaded:
        """The model and what makes its sequences.

        Raises:
            ModelLoadError: the files are no such model, have changed, or its tokenizer lacks what the settings need.
        """
        self.check_files()
        folder = model_files.locate(self.named("model"), self.revision)
        tokenizer = tokenizer_of(folder)
        plain = pretrained(folder, "AutoModelForCausalLM", self.has_weights, self.dtype)
        model = CausalLM(plain, self.device, self.dtype, self.batch_tokens)
        limit = min(self.max_tokens or MAX_TOKENS, model.max_tokens)
        reader = SequenceReader(tokenizer, limit, self.end, self.separates, self.start)
        if self.normalize == "pmi" and not reader.first_ids:
            problem = "no beginning-of-text token, behind which a text is given nothing"
            raise ModelLoadError(
                problem, where=str(folder), fix="Name one: start=..., or another normalize"
            )
        examples = read_examples(self.examples) if self.examples else FewShotExamples(())
        warn_of_two_blanks(examples, self.template)
        texts = PlainTexts(tokenizer, control_tokens(tokenizer))
        examples = examples.plain(texts.without_special)
        prompts = Prompts(self.template, examples, self.separates, self.prompts_given, texts)
        return Loaded(model, reader, prompts)
