"""Papers that metrics and tests come from, as BibTeX entries.

A metric names its papers in `Info.papers`; those that several metrics share, and those of the tests of ``compare``, are
declared here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Paper(NamedTuple):
    """One entry; authors joined by " and ". Pages and DOI are left out where they could not be checked."""

    key: str
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

POPOVIC_2015 = Paper(
    "popovic2015chrf",
    "inproceedings",
    r"Popovi{\'c}, Maja",
    "{chrF}: character n-gram {F}-score for automatic {MT} evaluation",
    _WMT.format("Tenth"),
    2015,
    "392--395",
    "10.18653/v1/W15-3049",
)
POPOVIC_2017 = Paper(
    "popovic2017chrf",
    "inproceedings",
    r"Popovi{\'c}, Maja",
    "{chrF++}: words helping character n-grams",
    "Proceedings of the Second Conference on Machine Translation",
    2017,
    "612--618",
    "10.18653/v1/W17-4770",
)
PAPINENI_2002 = Paper(
    "papineni2002bleu",
    "inproceedings",
    "Papineni, Kishore and Roukos, Salim and Ward, Todd and Zhu, Wei-Jing",
    "{BLEU}: a Method for Automatic Evaluation of Machine Translation",
    _ACL.format("40th"),
    2002,
    "311--318",
    "10.3115/1073083.1073135",
)
POST_2018 = Paper(
    "post2018call",
    "inproceedings",
    "Post, Matt",
    "A Call for Clarity in Reporting {BLEU} Scores",
    "Proceedings of the Third Conference on Machine Translation: Research Papers",
    2018,
    "186--191",
    "10.18653/v1/W18-6319",
)
WANG_2023 = Paper(
    "wang2023selfconsistency",
    "inproceedings",
    "Wang, Xuezhi and Wei, Jason and Schuurmans, Dale and Le, Quoc V. and Chi, Ed H. and Narang, Sharan and "
    "Chowdhery, Aakanksha and Zhou, Denny",
    "Self-Consistency Improves Chain of Thought Reasoning in Language Models",
    "The Eleventh International Conference on Learning Representations",
    2023,
)
SNOVER_2006 = Paper(
    "snover2006ter",
    "inproceedings",
    "Snover, Matthew and Dorr, Bonnie and Schwartz, Rich and Micciulla, Linnea and Makhoul, John",
    "A Study of Translation Edit Rate with Targeted Human Annotation",
    "Proceedings of the 7th Conference of the Association for Machine Translation in the Americas",
    2006,
    "223--231",
)
LIN_2004 = Paper(
    "lin2004rouge",
    "inproceedings",
    "Lin, Chin-Yew",
    "{ROUGE}: A Package for Automatic Evaluation of Summaries",
    "Text Summarization Branches Out",
    2004,
    "74--81",
)
DODDINGTON_2002 = Paper(
    "doddington2002nist",
    "inproceedings",
    "Doddington, George",
    "Automatic Evaluation of Machine Translation Quality Using N-gram Co-Occurrence Statistics",
    "Proceedings of the Second International Conference on Human Language Technology Research",
    2002,
    "138--145",
)
BANERJEE_2005 = Paper(
    "banerjee2005meteor",
    "inproceedings",
    "Banerjee, Satanjeev and Lavie, Alon",
    "{METEOR}: An Automatic Metric for {MT} Evaluation with Improved Correlation with Human Judgments",
    "Proceedings of the ACL Workshop on Intrinsic and Extrinsic Evaluation Measures for Machine Translation "
    "and/or Summarization",
    2005,
    "65--72",
)
ZHANG_2020 = Paper(
    "zhang2020bertscore",
    "inproceedings",
    "Zhang, Tianyi and Kishore, Varsha and Wu, Felix and Weinberger, Kilian Q. and Artzi, Yoav",
    "{BERTScore}: Evaluating Text Generation with {BERT}",
    "International Conference on Learning Representations",
    2020,
)
SELLAM_2020 = Paper(
    "sellam2020bleurt",
    "inproceedings",
    "Sellam, Thibault and Das, Dipanjan and Parikh, Ankur",
    "{BLEURT}: Learning Robust Metrics for Text Generation",
    _ACL.format("58th"),
    2020,
    "7881--7892",
    "10.18653/v1/2020.acl-main.704",
)
PU_2021 = Paper(
    "pu2021bleurt20",
    "inproceedings",
    "Pu, Amy and Chung, Hyung Won and Parikh, Ankur and Gehrmann, Sebastian and Sellam, Thibault",
    "Learning Compact Metrics for {MT}",
    _EMNLP.format("2021"),
    2021,
    "751--762",
    "10.18653/v1/2021.emnlp-main.58",
)
REIMERS_2019 = Paper(
    "reimers2019sentencebert",
    "inproceedings",
    "Reimers, Nils and Gurevych, Iryna",
    "Sentence-{BERT}: Sentence Embeddings using {S}iamese {BERT}-Networks",
    _EMNLP.format("2019"),
    2019,
    "3982--3992",
    "10.18653/v1/D19-1410",
)
JURASKA_2023 = Paper(
    "juraska2023metricx",
    "inproceedings",
    "Juraska, Juraj and Finkelstein, Mara and Deutsch, Daniel and Siddhant, Aditya and Mirzazadeh, Mehdi and "
    "Freitag, Markus",
    "{MetricX}-23: The {G}oogle Submission to the {WMT} 2023 Metrics Shared Task",
    "Proceedings of the Eighth Conference on Machine Translation",
    2023,
    "756--767",
    "10.18653/v1/2023.wmt-1.63",
)
JURASKA_2024 = Paper(
    "juraska2024metricx",
    "inproceedings",
    "Juraska, Juraj and Deutsch, Daniel and Finkelstein, Mara and Freitag, Markus",
    "{MetricX}-24: The {G}oogle Submission to the {WMT} 2024 Metrics Shared Task",
    "Proceedings of the Ninth Conference on Machine Translation",
    2024,
    "492--504",
    "10.18653/v1/2024.wmt-1.35",
)
GUERREIRO_2024 = Paper(
    "guerreiro2024xcomet",
    "article",
    "Guerreiro, Nuno M. and Rei, Ricardo and van Stigt, Daan and Coheur, Luisa and Colombo, Pierre and "
    r"Martins, Andr{\'e} F. T.",
    "{xCOMET}: Transparent Machine Translation Evaluation through Fine-grained Error Detection",
    "Transactions of the Association for Computational Linguistics",
    2024,
    "979--995",
    "10.1162/tacl_a_00683",
    "12",
)
REI_2020 = Paper(
    "rei2020comet",
    "inproceedings",
    "Rei, Ricardo and Stewart, Craig and Farinha, Ana C and Lavie, Alon",
    "{COMET}: A Neural Framework for {MT} Evaluation",
    _EMNLP.format("2020"),
    2020,
    "2685--2702",
    "10.18653/v1/2020.emnlp-main.213",
)
REI_2022 = Paper(
    "rei2022cometkiwi",
    "inproceedings",
    r"Rei, Ricardo and Treviso, Marcos and Guerreiro, Nuno M. and Zerva, Chrysoula and Farinha, Ana C and Maroti, "
    r"Christine and de Souza, Jos{\'e} G. C. and Glushkova, Taisiya and Alves, Duarte and Coheur, Luisa and Lavie, "
    r"Alon and Martins, Andr{\'e} F. T.",
    "{CometKiwi}: {IST}-Unbabel 2022 Submission for the Quality Estimation Shared Task",
    "Proceedings of the Seventh Conference on Machine Translation",
    2022,
    "634--645",
)
VERNIKOS_2022 = Paper(
    "vernikos2022embarrassingly",
    "inproceedings",
    "Vernikos, Giorgos and Thompson, Brian and Mathur, Prashant and Federico, Marcello",
    "Embarrassingly Easy Document-Level {MT} Metrics: How to Convert Any Pretrained Metric into a Document-Level "
    "Metric",
    "Proceedings of the Seventh Conference on Machine Translation",
    2022,
    "118--128",
)
GALE_1993 = Paper(
    "gale1993program",
    "article",
    "Gale, William A. and Church, Kenneth W.",
    "A Program for Aligning Sentences in Bilingual Corpora",
    "Computational Linguistics",
    1993,
    "75--102",
    volume="19",
)
THOMPSON_2020 = Paper(
    "thompson2020prism",
    "inproceedings",
    "Thompson, Brian and Post, Matt",
    "Automatic Machine Translation Evaluation in Many Languages via Zero-Shot Paraphrasing",
    _EMNLP.format("2020"),
    2020,
    "90--121",
)
YUAN_2021 = Paper(
    "yuan2021bartscore",
    "inproceedings",
    "Yuan, Weizhe and Neubig, Graham and Liu, Pengfei",
    "{BARTScore}: Evaluating Generated Text as Text Generation",
    "Advances in Neural Information Processing Systems",
    2021,
    "27263--27277",
    "",
    "34",
)
YEE_2019 = Paper(
    "yee2019simple",
    "inproceedings",
    "Yee, Kyra and Dauphin, Yann and Auli, Michael",
    "Simple and Effective Noisy Channel Modeling for Neural Machine Translation",
    "Proceedings of the 2019 Conference on Empirical Methods in Natural Language Processing and the 9th International "
    "Joint Conference on Natural Language Processing",
    2019,
    "5696--5701",
    "10.18653/v1/D19-1571",
)
YU_2020 = Paper(
    "yu2020better",
    "article",
    "Yu, Lei and Sartran, Laurent and Stokowiec, Wojciech and Ling, Wang and Kong, Lingpeng and Blunsom, Phil and "
    "Dyer, Chris",
    "Better Document-Level Machine Translation with {B}ayes' Rule",
    "Transactions of the Association for Computational Linguistics",
    2020,
    "346--360",
    "10.1162/tacl_a_00319",
    "8",
)
ZHAO_2023 = Paper(
    "zhao2023discoscore",
    "inproceedings",
    "Zhao, Wei and Strube, Michael and Eger, Steffen",
    "{DiscoScore}: Evaluating Text Generation with {BERT} and Discourse Coherence",
    "Proceedings of the 17th Conference of the European Chapter of the Association for Computational Linguistics",
    2023,
    "3865--3883",
)
WONG_2012 = Paper(
    "wong2012extending",
    "inproceedings",
    "Wong, Billy T. M. and Kit, Chunyu",
    "Extending Machine Translation Evaluation Metrics with Lexical Cohesion to Document Level",
    "Proceedings of the 2012 Joint Conference on Empirical Methods in Natural Language Processing and "
    "Computational Natural Language Learning",
    2012,
    "1060--1068",
)
GUINAUDEAU_2013 = Paper(
    "guinaudeau2013graph",
    "inproceedings",
    "Guinaudeau, Camille and Strube, Michael",
    "Graph-based Local Coherence Modeling",
    _ACL.format("51st"),
    2013,
    "93--103",
)
MESGAR_2016 = Paper(
    "mesgar2016lexical",
    "inproceedings",
    "Mesgar, Mohsen and Strube, Michael",
    "Lexical Coherence Graph Modeling Using Word Embeddings",
    "Proceedings of the 2016 Conference of the North American Chapter of the Association for Computational "
    "Linguistics: Human Language Technologies",
    2016,
    "1414--1423",
)
GONG_2015 = Paper(
    "gong2015document",
    "inproceedings",
    "Gong, Zhengxian and Zhang, Min and Zhou, Guodong",
    "Document-Level Machine Translation Evaluation with Gist Consistency and Text Cohesion",
    "Proceedings of the Second Workshop on Discourse in Machine Translation",
    2015,
    "33--40",
)
XU_2023 = Paper(
    "xu2023sescore2",
    "inproceedings",
    "Xu, Wenda and Qian, Xian and Wang, Mingxuan and Li, Lei and Wang, William Yang",
    "{SEScore2}: Learning Text Generation Evaluation via Synthesizing Realistic Mistakes",
    _ACL.format("61st"),
    2023,
    "5166--5183",
    "10.18653/v1/2023.acl-long.283",
)
LIU_2024 = Paper(
    "liu2024unlocking",
    "inproceedings",
    "Liu, Yinhong and Su, Yixuan and Shareghi, Ehsan and Collier, Nigel",
    "Unlocking Structure Measuring: Introducing {PDD}, an Automatic Metric for Positional Discourse Coherence",
    "Proceedings of the 2024 Conference of the North American Chapter of the Association for Computational "
    "Linguistics: Human Language Technologies",
    2024,
    "92--100",
)
GUZMAN_2014 = Paper(
    "guzman2014discourse",
    "inproceedings",
    r"Guzm{\'a}n, Francisco and Joty, Shafiq and M{\`a}rquez, Llu{\'i}s and Nakov, Preslav",
    "Using Discourse Structure Improves Machine Translation Evaluation",
    _ACL.format("52nd"),
    2014,
    "687--698",
)
JOTY_2014 = Paper(
    "joty2014discotk",
    "inproceedings",
    r"Joty, Shafiq and Guzm{\'a}n, Francisco and M{\`a}rquez, Llu{\'i}s and Nakov, Preslav",
    "{DiscoTK}: Using Discourse Structure for Machine Translation Evaluation",
    _WMT.format("Ninth"),
    2014,
    "402--408",
)
JOTY_2017 = Paper(
    "joty2017discourse",
    "article",
    r"Joty, Shafiq and Guzm{\'a}n, Francisco and M{\`a}rquez, Llu{\'i}s and Nakov, Preslav",
    "Discourse Structure in Machine Translation Evaluation",
    "Computational Linguistics",
    2017,
    "683--722",
    "",
    "43",
)
KOEHN_2004 = Paper(
    "koehn2004statistical",
    "inproceedings",
    "Koehn, Philipp",
    "Statistical Significance Tests for Machine Translation Evaluation",
    _EMNLP.format("2004"),
    2004,
    "388--395",
)
RIEZLER_2005 = Paper(
    "riezler2005pitfalls",
    "inproceedings",
    "Riezler, Stefan and Maxwell, John T.",
    "On Some Pitfalls in Automatic Evaluation and Significance Testing for {MT}",
    "Proceedings of the ACL Workshop on Intrinsic and Extrinsic Evaluation Measures for Machine Translation "
    "and/or Summarization",
    2005,
    "57--64",
)

KOCMI_2023 = Paper(
    "kocmi2023large",
    "inproceedings",
    "Kocmi, Tom and Federmann, Christian",
    "Large Language Models Are State-of-the-Art Evaluators of Translation Quality",
    "Proceedings of the 24th Annual Conference of the European Association for Machine Translation",
    2023,
    "193--203",
)
KOCMI_MQM_2023 = Paper(
    "kocmi2023gemba",
    "inproceedings",
    "Kocmi, Tom and Federmann, Christian",
    "{GEMBA-MQM}: Detecting Translation Quality Error Spans with {GPT}-4",
    "Proceedings of the Eighth Conference on Machine Translation",
    2023,
    "768--775",
    "10.18653/v1/2023.wmt-1.64",
)
ZHENG_2023 = Paper(
    "zheng2023judging",
    "inproceedings",
    "Zheng, Lianmin and Chiang, Wei-Lin and Sheng, Ying and Zhuang, Siyuan and Wu, Zhanghao and Zhuang, Yonghao and "
    "Lin, Zi and Li, Zhuohan and Li, Dacheng and Xing, Eric P. and Zhang, Hao and Gonzalez, Joseph E. and Stoica, Ion",
    "Judging {LLM}-as-a-Judge with {MT}-Bench and {Chatbot} {Arena}",
    "Advances in Neural Information Processing Systems",
    2023,
    volume="36",
)
LIU_2023 = Paper(
    "liu2023geval",
    "inproceedings",
    "Liu, Yang and Iter, Dan and Xu, Yichong and Wang, Shuohang and Xu, Ruochen and Zhu, Chenguang",
    "{G}-Eval: {NLG} Evaluation using {GPT}-4 with Better Human Alignment",
    _EMNLP.format("2023"),
    2023,
    "2511--2522",
    "10.18653/v1/2023.emnlp-main.153",
)

OF_TESTS = (RIEZLER_2005, KOEHN_2004)  # of the tests of ``compare``

JINNAI_2024_FASTER = Paper(
    "jinnai2024faster",
    "inproceedings",
    "Jinnai, Yuu and Ariu, Kaito",
    "Hyperparameter-Free Approach for Faster Minimum {B}ayes Risk Decoding",
    "Findings of the Association for Computational Linguistics: ACL 2024",
    2024,
    "8547--8566",
    "10.18653/v1/2024.findings-acl.505",
)
JINNAI_2024_DIVERSE = Paper(
    "jinnai2024diverse",
    "inproceedings",
    "Jinnai, Yuu and Honda, Ukyo and Morimura, Tetsuro and Zhang, Peinan",
    "Generating Diverse and High-Quality Texts by Minimum {B}ayes Risk Decoding",
    "Findings of the Association for Computational Linguistics: ACL 2024",
    2024,
    doi="10.18653/v1/2024.findings-acl.503",
)

# of the methods of decoding under a budget, by name, and of diverse k-best lists
OF_BUDGETS = {
    "halving": JINNAI_2024_FASTER,
    "diverse": JINNAI_2024_DIVERSE,
}


# of the forms of aligning documents
def bibtex(papers: Iterable[Paper]) -> str:
    """The entries, each once."""
    return "\n".join(map(_entry, dict.fromkeys(papers)))


def _entry(paper: Paper) -> str:
    place = "journal" if paper.kind == "article" else "booktitle"
    fields = {
        "author": paper.author,
        "title": paper.title,
        place: paper.place,
        "volume": paper.volume,
        "pages": paper.pages,
        "year": str(paper.year),
        "doi": paper.doi,
    }
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@{paper.kind}{{{paper.key},\n{lines}}}\n"
