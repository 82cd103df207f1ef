"""Names of rhetorical relations as the 18 coarse classes of the RST Discourse Treebank (Carlson and Marcu 2001).

Covers RST-DT's own names, those of GUM and of classic RST (Mann and Thompson 1988). Names are compared without regard
to case, ``_`` or ``-``, and without the suffixes of RST-DT (``-e``, ``-n``, ``-s``) and of GUM's dependencies (``_r``,
``_m``). A name that is none of them is a class of its own, so folded.
"""

from __future__ import annotations

import re
from functools import cache

_NAMES = {
    "Attribution": "attribution attribution-positive attribution-negative",
    "Background": "background circumstance context-background context-circumstance",
    "Cause": "cause result consequence cause-result causal-cause causal-result volitional-cause volitional-result "
    "nonvolitional-cause nonvolitional-result",
    "Comparison": "comparison preference analogy proportion",
    "Condition": "condition hypothetical contingency otherwise unless unconditional contingency-condition",
    "Contrast": "contrast concession antithesis adversative-antithesis adversative-concession adversative-contrast",
    "Elaboration": "elaboration elaboration-additional elaboration-attribute elaboration-general-specific "
    "elaboration-part-whole elaboration-process-step elaboration-object-attribute elaboration-set-member example "
    "definition",
    "Enablement": "enablement purpose purpose-attribute purpose-goal",
    "Evaluation": "evaluation interpretation conclusion comment evaluation-comment",
    "Explanation": "explanation evidence explanation-argumentative reason justify motivation explanation-evidence "
    "explanation-justify explanation-motivation",
    "Joint": "joint list disjunction conjunction joint-list joint-other joint-disjunction",
    "Manner-Means": "manner-means manner means mode-manner mode-means",
    "Same-Unit": "same-unit same-unite",
    "Summary": "summary restatement restatement-partial restatement-repetition",
    "Temporal": "temporal temporal-before temporal-after temporal-same-time sequence inverted-sequence joint-sequence",
    "Textual-Organization": "textual-organization organization-heading organization-phatic organization-preparation "
    "preparation heading phatic",
    "Topic-Change": "topic-change topic-shift topic-drift",
    "Topic-Comment": "topic-comment comment-topic problem-solution question-answer statement-response solutionhood "
    "rhetorical-question topic-question topic-solutionhood",
}
CLASSES = tuple(_NAMES)


def _folded(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).lower()


_CLASS_OF = {_folded(name): kind for kind, names in _NAMES.items() for name in names.split()}


@cache
def coarse(name: str) -> str:
    """The class of a relation; the name without case, ``_``, ``-``, white space and suffix if it is not known.

    >>> coarse("elaboration-object-attribute-e"), coarse("TextualOrganization"), coarse("My-own")
    ('Elaboration', 'Textual-Organization', 'myown')
    """
    short = re.sub(r"(?<=\w)(-[ens]|_[rm])$", "", name)
    return _CLASS_OF.get(_folded(name)) or _CLASS_OF.get(_folded(short)) or _folded(short) or name
