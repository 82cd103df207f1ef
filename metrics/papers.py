"""The papers of every built-in metric, and of the tests of ``compare``, as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Paper(NamedTuple):
    """One entry; authors joined by " and ". Pages and DOI are left out where they could not be checked."""

    kind: str
    author: str
    title: str
    place: str  # of @inproceedings the booktitle, of @article the journal
    year: int
    pages: str = ""
    doi: str = ""
    volume: str = ""


_WMT = "Proceedings of the {} Workshop on Statistical Machine Translation"
_ACL = "Proceedings of the {} Annual Meeting of the Association for Computational Linguistics"
_EMNLP = "Proceedings of the {} Conference on Empirical Methods in Natural Language Processing"

PAPERS: Mapping[str, Paper] = {
    "popovic2015chrf": Paper(
        "inproceedings",
        r"Popovi{\'c}, Maja",
        "{chrF}: character n-gram {F}-score for automatic {MT} evaluation",
        _WMT.format("Tenth"),
        2015,
        "392--395",
        "10.18653/v1/W15-3049",
    ),
    "popovic2017chrf": Paper(
        "inproceedings",
        r"Popovi{\'c}, Maja",
        "{chrF++}: words helping character n-grams",
        "Proceedings of the Second Conference on Machine Translation",
        2017,
        "612--618",
        "10.18653/v1/W17-4770",
    ),
    "papineni2002bleu": Paper(
        "inproceedings",
        "Papineni, Kishore and Roukos, Salim and Ward, Todd and Zhu, Wei-Jing",
        "{BLEU}: a Method for Automatic Evaluation of Machine Translation",
        _ACL.format("40th"),
        2002,
        "311--318",
        "10.3115/1073083.1073135",
    ),
    "post2018call": Paper(
        "inproceedings",
        "Post, Matt",
        "A Call for Clarity in Reporting {BLEU} Scores",
        "Proceedings of the Third Conference on Machine Translation: Research Papers",
        2018,
        "186--191",
        "10.18653/v1/W18-6319",
    ),
    "snover2006ter": Paper(
        "inproceedings",
        "Snover, Matthew and Dorr, Bonnie and Schwartz, Rich and Micciulla, Linnea and Makhoul, John",
        "A Study of Translation Edit Rate with Targeted Human Annotation",
        "Proceedings of the 7th Conference of the Association for Machine Translation in the Americas",
        2006,
        "223--231",
    ),
    "lin2004rouge": Paper(
        "inproceedings",
        "Lin, Chin-Yew",
        "{ROUGE}: A Package for Automatic Evaluation of Summaries",
        "Text Summarization Branches Out",
        2004,
        "74--81",
    ),
    "doddington2002nist": Paper(
        "inproceedings",
        "Doddington, George",
        "Automatic Evaluation of Machine Translation Quality Using N-gram Co-Occurrence Statistics",
        "Proceedings of the Second International Conference on Human Language Technology Research",
        2002,
        "138--145",
    ),
    "banerjee2005meteor": Paper(
        "inproceedings",
        "Banerjee, Satanjeev and Lavie, Alon",
        "{METEOR}: An Automatic Metric for {MT} Evaluation with Improved Correlation with Human Judgments",
        "Proceedings of the ACL Workshop on Intrinsic and Extrinsic Evaluation Measures for Machine Translation "
        "and/or Summarization",
        2005,
        "65--72",
    ),
    "zhang2020bertscore": Paper(
        "inproceedings",
        "Zhang, Tianyi and Kishore, Varsha and Wu, Felix and Weinberger, Kilian Q. and Artzi, Yoav",
        "{BERTScore}: Evaluating Text Generation with {BERT}",
        "International Conference on Learning Representations",
        2020,
    ),
    "rei2020comet": Paper(
        "inproceedings",
        "Rei, Ricardo and Stewart, Craig and Farinha, Ana C and Lavie, Alon",
        "{COMET}: A Neural Framework for {MT} Evaluation",
        _EMNLP.format("2020"),
        2020,
        "2685--2702",
        "10.18653/v1/2020.emnlp-main.213",
    ),
    "rei2022cometkiwi": Paper(
        "inproceedings",
        r"Rei, Ricardo and Treviso, Marcos and Guerreiro, Nuno M. and Zerva, Chrysoula and Farinha, Ana C and Maroti, "
        r"Christine and de Souza, Jos{\'e} G. C. and Glushkova, Taisiya and Alves, Duarte and Coheur, Luisa and Lavie, "
        r"Alon and Martins, Andr{\'e} F. T.",
        "{CometKiwi}: {IST}-Unbabel 2022 Submission for the Quality Estimation Shared Task",
        "Proceedings of the Seventh Conference on Machine Translation",
        2022,
        "634--645",
    ),
    "vernikos2022embarrassingly": Paper(
        "inproceedings",
        "Vernikos, Giorgos and Thompson, Brian and Mathur, Prashant and Federico, Marcello",
        "Embarrassingly Easy Document-Level {MT} Metrics: How to Convert Any Pretrained Metric into a Document-Level "
        "Metric",
        "Proceedings of the Seventh Conference on Machine Translation",
        2022,
        "118--128",
    ),
    "thompson2020prism": Paper(
        "inproceedings",
        "Thompson, Brian and Post, Matt",
        "Automatic Machine Translation Evaluation in Many Languages via Zero-Shot Paraphrasing",
        _EMNLP.format("2020"),
        2020,
        "90--121",
    ),
    "yuan2021bartscore": Paper(
        "inproceedings",
        "Yuan, Weizhe and Neubig, Graham and Liu, Pengfei",
        "{BARTScore}: Evaluating Generated Text as Text Generation",
        "Advances in Neural Information Processing Systems",
        2021,
        "27263--27277",
        "",
        "34",
    ),
    "zhao2023discoscore": Paper(
        "inproceedings",
        "Zhao, Wei and Strube, Michael and Eger, Steffen",
        "{DiscoScore}: Evaluating Text Generation with {BERT} and Discourse Coherence",
        "Proceedings of the 17th Conference of the European Chapter of the Association for Computational Linguistics",
        2023,
        "3865--3883",
    ),
    "wong2012extending": Paper(
        "inproceedings",
        "Wong, Billy T. M. and Kit, Chunyu",
        "Extending Machine Translation Evaluation Metrics with Lexical Cohesion to Document Level",
        "Proceedings of the 2012 Joint Conference on Empirical Methods in Natural Language Processing and "
        "Computational Natural Language Learning",
        2012,
        "1060--1068",
    ),
    "guinaudeau2013graph": Paper(
        "inproceedings",
        "Guinaudeau, Camille and Strube, Michael",
        "Graph-based Local Coherence Modeling",
        _ACL.format("51st"),
        2013,
        "93--103",
    ),
    "mesgar2016lexical": Paper(
        "inproceedings",
        "Mesgar, Mohsen and Strube, Michael",
        "Lexical Coherence Graph Modeling Using Word Embeddings",
        "Proceedings of the 2016 Conference of the North American Chapter of the Association for Computational "
        "Linguistics: Human Language Technologies",
        2016,
        "1414--1423",
    ),
    "gong2015document": Paper(
        "inproceedings",
        "Gong, Zhengxian and Zhang, Min and Zhou, Guodong",
        "Document-Level Machine Translation Evaluation with Gist Consistency and Text Cohesion",
        "Proceedings of the Second Workshop on Discourse in Machine Translation",
        2015,
        "33--40",
    ),
    "xu2023sescore2": Paper(
        "inproceedings",
        "Xu, Wenda and Qian, Xian and Wang, Mingxuan and Li, Lei and Wang, William Yang",
        "{SEScore2}: Learning Text Generation Evaluation via Synthesizing Realistic Mistakes",
        _ACL.format("61st"),
        2023,
        "5166--5183",
        "10.18653/v1/2023.acl-long.283",
    ),
    "liu2024unlocking": Paper(
        "inproceedings",
        "Liu, Yinhong and Su, Yixuan and Shareghi, Ehsan and Collier, Nigel",
        "Unlocking Structure Measuring: Introducing {PDD}, an Automatic Metric for Positional Discourse Coherence",
        "Proceedings of the 2024 Conference of the North American Chapter of the Association for Computational "
        "Linguistics: Human Language Technologies",
        2024,
        "92--100",
    ),
    "guzman2014discourse": Paper(
        "inproceedings",
        r"Guzm{\'a}n, Francisco and Joty, Shafiq and M{\`a}rquez, Llu{\'i}s and Nakov, Preslav",
        "Using Discourse Structure Improves Machine Translation Evaluation",
        _ACL.format("52nd"),
        2014,
        "687--698",
    ),
    "joty2014discotk": Paper(
        "inproceedings",
        r"Joty, Shafiq and Guzm{\'a}n, Francisco and M{\`a}rquez, Llu{\'i}s and Nakov, Preslav",
        "{DiscoTK}: Using Discourse Structure for Machine Translation Evaluation",
        _WMT.format("Ninth"),
        2014,
        "402--408",
    ),
    "joty2017discourse": Paper(
        "article",
        r"Joty, Shafiq and Guzm{\'a}n, Francisco and M{\`a}rquez, Llu{\'i}s and Nakov, Preslav",
        "Discourse Structure in Machine Translation Evaluation",
        "Computational Linguistics",
        2017,
        "683--722",
        "",
        "43",
    ),
    "koehn2004statistical": Paper(
        "inproceedings",
        "Koehn, Philipp",
        "Statistical Significance Tests for Machine Translation Evaluation",
        _EMNLP.format("2004"),
        2004,
        "388--395",
    ),
    "riezler2005pitfalls": Paper(
        "inproceedings",
        "Riezler, Stefan and Maxwell, John T.",
        "On Some Pitfalls in Automatic Evaluation and Significance Testing for {MT}",
        "Proceedings of the ACL Workshop on Intrinsic and Extrinsic Evaluation Measures for Machine Translation "
        "and/or Summarization",
        2005,
        "57--64",
    ),
}

_DISCOSCORE = ("zhao2023discoscore",)
_KERNELS = ("guzman2014discourse", "joty2017discourse")
OF_METRIC: Mapping[str, tuple[str, ...]] = {
    "chrf": ("popovic2015chrf", "post2018call"),
    "chrf++": ("popovic2017chrf", "post2018call"),
    "bleu": ("papineni2002bleu", "post2018call"),
    "ter": ("snover2006ter", "post2018call"),
    "rouge-l": ("lin2004rouge",),
    "rouge-w": ("lin2004rouge",),
    "nist": ("doddington2002nist",),
    "meteor": ("banerjee2005meteor",),
    **dict.fromkeys(("dr", "dr-nolex", "dr-lex", "dr-lex-1.1", "dr-lex-2", "dr-lex-2.1"), _KERNELS),
    "discotk-light": ("joty2014discotk", "joty2017discourse"),
    "ds-focus": _DISCOSCORE,
    "ds-sent": _DISCOSCORE,
    "rc": ("wong2012extending", *_DISCOSCORE),
    "lc": ("wong2012extending", *_DISCOSCORE),
    "entity-graph": ("guinaudeau2013graph", *_DISCOSCORE),
    "lexical-graph": ("mesgar2016lexical", *_DISCOSCORE),
    "lexical-chain": ("gong2015document", *_DISCOSCORE),
    "pdd": ("liu2024unlocking",),
    "role-match": ("liu2024unlocking",),
    "sescore2": ("xu2023sescore2",),
    "combination": ("joty2014discotk", "joty2017discourse"),
    "bertscore": ("zhang2020bertscore",),
    "comet": ("rei2020comet",),
    "comet-qe": ("rei2020comet",),
    "prism": ("thompson2020prism",),
    "bartscore": ("yuan2021bartscore",),
    "bartscore-faithfulness": ("yuan2021bartscore",),
}
OF_TESTS = ("riezler2005pitfalls", "koehn2004statistical")
CONTEXT = "vernikos2022embarrassingly"
KIWI = "rei2022cometkiwi"


def keys_of(name: str, settings: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The keys of a metric's papers; None for a metric that is not built in."""
    plain = name.removeprefix("doc-")
    keys = OF_METRIC.get("chrf++" if plain == "chrf" and settings.get("word_order") else plain)
    if keys is None:
        return None
    if plain == "comet-qe" and "kiwi" in str(settings.get("model")).lower():
        keys = (*keys, KIWI)
    neural = plain in ("bertscore", "comet", "comet-qe", "prism")
    in_context = neural and (name != plain or settings.get("context", 0))
    return (*keys, CONTEXT) if in_context else keys


def bibtex(keys: Iterable[str]) -> str:
    """The entries, each once."""
    return "\n".join(map(_entry, dict.fromkeys(keys)))


def _entry(key: str) -> str:
    paper = PAPERS[key]
    place = "journal" if paper.kind == "article" else "booktitle"
    fields = {
        "author": paper.author,
        "title": paper.title,
        place: paper.place,
        "volume": paper.volume,
    }
    fields |= {"pages": paper.pages, "year": str(paper.year), "doi": paper.doi}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@{paper.kind}{{{key},\n{lines}}}\n"
