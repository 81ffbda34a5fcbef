"""Publish the results of a benchmark suite in a store that results/ lacks, as one new file of results/.

Run: python -m studies.paper.publish imagenette64 STORES/imagenette64 own-network --about "A. Author, one H200"
Then add the folder to [tool.setuptools.data-files] of pyproject.toml, and run `roarbench results check results`.
With --replication 1, the results of `roarbench replicate --replication 1` are published.
"""

from dataclasses import replace
from pathlib import Path

from roarbench.analysis.collect_results import add_stored_estimators, collect_results
from roarbench.analysis.load_results import open_read_only_results
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.exported_file import ExportedFile
from roarbench.store.published_folder import add_file_to_index, read_index_and_check_folder
from roarbench.store.rankings import RankingsStore
from roarbench.store.transfer import export_results
from roarbench.store.workspace import Workspace
from studies.page import make_parser
from studies.paper.published import DATA, RESULTS, SETS


def publish(name: str, store: Path, file: str, about: str, replication: int) -> int:
    """Write the new rows of a data set's suite to results/ and its index; return their number."""
    suite = replace(find_builtin_suite(f"benchmark-{name}"), replication=replication)
    files = [
        RESULTS / each.path for each in read_index_and_check_folder(RESULTS) if each.versioned_suite == suite.versioned
    ]
    known = {result.run.key for path in files for result in ExportedFile(path).read_results()}
    with open_read_only_results(store, "") as rows:
        found = collect_results(add_stored_estimators(suite, rows), rows, data=DATA.get(name))
        results = (*found.results.values(), *found.references.values())
        path = f"{suite.name}/{suite.version}/{file}.parquet"
        (RESULTS / path).parent.mkdir(parents=True, exist_ok=True)
        kept = RankingsStore(Workspace(store).rankings).read_prediction_stability()
        count = export_results(rows, RESULTS / path, kept, {result.run.key for result in results} - known)
    add_file_to_index(RESULTS, path, count, about)
    return count


def main() -> None:
    """Publish the results, and print the number of rows."""
    parser = make_parser(__doc__)
    parser.add_argument("name", choices=SETS)
    parser.add_argument("store", type=Path)
    parser.add_argument("file", help="name of the new file in the suite's folder, without .parquet")
    parser.add_argument("--about", required=True, help="author and hardware, in one line")
    parser.add_argument("--replication", type=int, default=0)
    print(publish(**vars(parser.parse_args())), "rows")


if __name__ == "__main__":
    main()
