"""Problems as a TFDS dataset in array_record files, whose examples have the fields of `Problem`.

Neither writing nor reading imports TensorFlow. The bytes written depend only on the problems.
"""

import contextlib
import io
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from google.protobuf.json_format import MessageToDict
from tensorflow_datasets.proto import tf_example_pb2

from data_pipeline.problem import Problem
from data_pipeline.rows import document

FORMAT_VERSION = "1.6.0"
SPLIT = "train"
_WRITER_OPTIONS = "group_size:1"  # as TFDS does: every record can be read separately


class Problems(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version(FORMAT_VERSION)
    url_infos: Mapping[str, Any] = {}  # there are no downloads, and so no checksums to look for

    def __init__(self, name: str, problems: Sequence[Problem], directory: str) -> None:
        self.problems = problems
        config = tfds.core.BuilderConfig(name=name)
        super().__init__(config=config, data_dir=directory, file_format="array_record")

    def _info(self) -> tfds.core.DatasetInfo:
        features = _features([field.name for field in fields(Problem)])
        return self.dataset_info_from_configs(features=features, description="Programming problems with solutions.")

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        return {SPLIT: self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for problem in self.problems:
            texts = {
                name: repr(value) if isinstance(value, float) else value for name, value in asdict(problem).items()
            }
            yield problem.id, texts

    def _download_and_prepare(self, dl_manager: tfds.download.DownloadManager, download_config: Any) -> None:
        super()._download_and_prepare(dl_manager, download_config)
        for shard in sorted(Path(self.data_path).glob("*.array_record-*")):
            _rewrite_deterministically(shard)


def _features(names: Collection[str]) -> tfds.features.FeaturesDict:
    text = tfds.features.Text()  # of floats as well: its float features keep 32 bits
    return tfds.features.FeaturesDict(
        {
            field.name: tfds.features.Sequence(text) if field.type == tuple[str, ...] else text
            for field in fields(Problem)
            if field.name in names
        }
    )


def write(directory: str | Path, name: str, problems: Sequence[Problem]) -> Path:
    """Writes the problems to the folder `name` below `directory` and returns its path, which `read` takes.

    An existing dataset is replaced only once the new one is complete.
    """
    tfds.disable_progress_bar()
    Path(directory).mkdir(parents=True, exist_ok=True)
    # Always built in a new folder: TFDS writes different metadata if it finds an older dataset.
    with tempfile.TemporaryDirectory(dir=directory, prefix=".incomplete-") as fresh:
        builder = Problems(name, problems, fresh)
        with contextlib.redirect_stdout(io.StringIO()):  # where TFDS prints of its temporary folder
            builder.download_and_prepare()
        target = Path(directory) / name
        if target.exists():
            shutil.rmtree(target)
        Path(builder.data_path).rename(target)
    return target


def read(path: str | Path) -> tuple[Problem, ...]:
    """The problems of a written dataset, in TFDS's own shuffled but constant order.

    Raises ValueError if the dataset does not hold problems. What TFDS reads may name any module, which it imports, so
    features are compared with those that `write` would have written.
    """
    kinds = {field.name: field.type for field in fields(Problem)}
    required = {field.name for field in fields(Problem) if field.default is MISSING}
    file = Path(path) / "features.json"
    stated: Any = document({file.name: file.read_text()}, file.name)
    try:
        names = set(stated["featuresDict"]["features"])
    except (TypeError, KeyError):
        names = set()
    if not required <= names or MessageToDict(_features(names).to_proto()) != stated:
        raise ValueError(f"{path}: a TFDS dataset, but not of problems")
    builder: Any = tfds.builder_from_directory(str(path))  # the stubs lack features and data sources
    examples = (example for split in builder.info.splits for example in builder.as_data_source(split))
    return tuple(
        Problem(**{name: _decoded(value, kinds[name]) for name, value in example.items()}) for example in examples
    )


def _decoded(value: Any, kind: Any) -> Any:
    if isinstance(value, bytes):
        return kind(value.decode())
    return tuple(item.decode() for item in value)


def _rewrite_deterministically(shard: Path) -> None:
    """Rewrites a shard with sorted fields: TFDS serializes them in an order that differs between processes."""
    reader = ArrayRecordReader(str(shard))
    records = reader.read_all()
    reader.close()
    writer = ArrayRecordWriter(str(shard), _WRITER_OPTIONS)
    for record in records:
        example = tf_example_pb2.Example.FromString(record)  # pyright: ignore[reportAttributeAccessIssue]
        writer.write(example.SerializeToString(deterministic=True))
    writer.close()
