"""The public names of discorank: what is listed here is imported when it is first used."""

from .integrations.arrow.dataset_libraries import BatchDecider as BatchDecider
from .integrations.arrow.dataset_libraries import to_dataset as to_dataset
from .metrics.base import Metric as Metric
from .metrics.errors import DiscorankError as DiscorankError
from .metrics.errors import InputError as InputError
from .metrics.errors import MetricError as MetricError
from .metrics.errors import ModelLoadError as ModelLoadError
from .metrics.errors import ResumeError as ResumeError
from .metrics.errors import TruncationWarning as TruncationWarning
from .metrics.execution.cache import Cache as Cache
from .metrics.registry import load_metric as load_metric
from .metrics.representations import Block as Block
from .metrics.representations import Ragged as Ragged
from .metrics.representations import Reps as Reps
from .metrics.rst.formats.tree_files import read_trees as read_trees
from .metrics.scorer import Info as Info
from .metrics.scorer import Reading as Reading
from .metrics.scorer import Scorer as Scorer
from .metrics.spec.checked_settings import settings as settings
from .metrics.storage.limits import use_limits as use_limits
from .metrics.text.texts import Context as Context
from .metrics.text.texts import Document as Document
from .metrics.text.texts import Item as Item
from .metrics.text.texts import RSTTree as RSTTree
from .report.compared_texts import compare as compare
from .rerank.budget.settings import Budget as Budget
from .rerank.choice import Choice as Choice
from .rerank.choice import Ranking as Ranking
from .rerank.choice import to_pandas as to_pandas
from .rerank.engines.local import LocalEngine as LocalEngine
from .rerank.estimator import Estimator as Estimator
from .rerank.lists import Candidate as Candidate
from .rerank.lists import CandidateList as CandidateList
from .rerank.mbr import MBRDecoder as MBRDecoder
from .rerank.mbr import decode as decode
from .rerank.order import Order as Order
from .rerank.pool import Pool as Pool
from .rerank.reranker import Reranker as Reranker
from .rerank.selection.contrastive import contrastive_accuracy as contrastive_accuracy
from .rerank.stopping_rule import StoppingRule as StoppingRule

__version__: str
