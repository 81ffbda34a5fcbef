"""Suites from TOML files: accepted keys, error messages, and identity."""

import json
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from roarbench.common.enums import Split, Unit
from roarbench.common.errors import CallerError
from roarbench.common.identity import encode_canonically
from roarbench.datasets.catalogue import TABLE
from roarbench.execution.network_trials import check_network_and_drop_estimators
from roarbench.plan.data_section import read_published_preprocessing
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import MATCHED, MORF, PROTOCOLS, ROAR
from roarbench.plan.suite import NO_NEIGHBOURS, describe_missing_controls
from roarbench.plan.suites import (
    convert_user_suite_to_record,
    drop_estimators_of_user_suite,
    find_default_explained_weights,
    parse_suite,
    read_suite,
    read_user_suite_record,
)
from tests.helpers.image_files import CLASSES, TEXT, write_suite, write_table

ON_TABLE = """
name = "mine"
protocols = ["matched", "roar"]
estimators = ["grad", "gradcam", "sobel", "ig(baseline=blur)"]
levels = [0.5]
seeds = 2
references = 2
data = {table = "mine.csv", label_column = "kind", test_share = 0.25}
network = {name = "mlp"}
recipe = {like = "tabular@1", epochs = 4}
"""


@pytest.fixture
def path(tmp_path):
    return write_suite(tmp_path)


@pytest.fixture
def table_suite_path(tmp_path):
    write_table(tmp_path / "mine.csv")
    (tmp_path / "mine.toml").write_text(ON_TABLE)
    return tmp_path / "mine.toml"


NINE = ("contrast", "deviation", "deviation-blurred", "colour-deviation", "saturation-deviation", "linear-classifier")
CONTROLS = ("random", "sobel", "random-blurred", *NINE)  # a row on photographs has to beat these
MISSING_CONTROLS = (
    "only {} for matched, and fewer controls are easier to beat; add {} to `estimators`, or the word controls for all"
)


@pytest.mark.parametrize(
    ("estimators", "more", "count", "lacking"),
    [
        ('"grad"', "", 3, NINE),
        ('"grad", "deviation", "colour-deviation"', "", 5, tuple(NINE[i] for i in (0, 2, 4, 5))),
        ('"grad"', "channels = 1", 3, tuple(NINE[i] for i in (0, 1, 2, 5))),  # grey has no colour
        (", ".join(f'"{name}"' for name in NINE), "", 9, ()),
    ],
)
def test_describe_missing_controls_names_missing_controls(path, estimators, more, count, lacking):
    path.write_text(path.read_text().replace('"roar"', '"matched", "roar"').replace('"grad"', estimators))
    suite = read_changed_suite(path, "size = 8", f"size = 8\n{more}")
    said = MISSING_CONTROLS.format(f"{count} controls", ", ".join(lacking))
    assert describe_missing_controls(suite, MATCHED) == (said if lacking else "")
    assert describe_missing_controls(suite, ROAR) == "", "new-suite writes the same three controls"


def test_suite_file_accepts_every_run_protocol(table_suite_path):
    text = ON_TABLE.replace('["matched", "roar"]', str([*PROTOCOLS]).replace("'", '"'))
    table_suite_path.write_text(text.replace("seeds = 2\nreferences = 2", "seeds = 3\nreferences = 3"))
    suite = read_suite(table_suite_path)
    assert {block.protocol.name for block in suite.blocks} == {*PROTOCOLS}


def test_describe_missing_controls_names_two_controls_of_table(table_suite_path):
    said = MISSING_CONTROLS.format("1 control", "deviation, linear-classifier")
    assert describe_missing_controls(read_suite(table_suite_path), MATCHED) == said


def read_changed_suite(path, old, new):
    """Read the suite from a copy of a file in which one piece of text is replaced."""
    assert old in path.read_text()
    beside = path.with_stem("changed")
    beside.write_text(path.read_text().replace(old, new))
    return read_suite(beside)


def write_and_read_record(suite):
    """Read a suite from its record, as from a store."""
    return read_user_suite_record(json.loads(encode_canonically(convert_user_suite_to_record(suite))))


def test_suite_file_round_trips_through_record(path):
    suite = read_suite(path)
    (block,) = suite.blocks
    assert (block.protocol, block.levels, block.seeds, block.fill) == (ROAR, (0.5,), 1, "mean")
    assert block.estimators == ("random", "sobel", "random-blurred", "grad")  # controls are added
    assert suite.recipe == suite.reference_recipe == "planted-brief@1(epochs=1)"
    data = suite.dataset_record
    assert (data.classes, data.train_images, data.test_images, data.size) == (3, 18, 6, 8)  # a quarter of 8, thrice
    assert suite.title == f"pictures@{suite.version}"
    assert len(list_planned_runs(suite)) == 5
    assert str(path.parent) not in encode_canonically(convert_user_suite_to_record(suite)), "no local path"
    found = write_and_read_record(suite)
    assert replace(found, own=suite.own) == suite
    assert found.own == replace(suite.own, dataset=suite.own.dataset.without_location)
    part = drop_estimators_of_user_suite(suite, {"grad": "no gradient"})
    assert part.name_in_commands == suite.name_in_commands
    assert read_user_suite_record(convert_user_suite_to_record(part)).blocks == part.blocks
    assert drop_estimators_of_user_suite(part, {}).blocks == suite.blocks


def test_compile_key_changes_recipe_of_suite_file(path):
    usual, compiled = read_suite(path), read_changed_suite(path, "epochs = 1", "epochs = 1\ncompile = true")
    assert compiled.recipe == compiled.reference_recipe == "planted-brief@1(epochs=1,compile=true)"
    assert compiled.recipe_record.compile and not usual.recipe_record.compile
    assert compiled.version != usual.version
    assert read_user_suite_record(convert_user_suite_to_record(compiled)).recipe == compiled.recipe
    plain = read_changed_suite(path, "epochs = 1", "epochs = 1\ncompile = false")
    assert plain.name_in_commands == usual.name_in_commands


def test_suite_version_depends_only_on_content(path, tmp_path):
    usual = read_suite(path)
    shutil.copytree(tmp_path / "pictures", tmp_path / "elsewhere" / "photos")
    moved = tmp_path / "elsewhere" / "other.toml"
    said = TEXT.replace('"pictures"\nsize', '"photos" # moved\nsize')
    said = said.replace("seeds = 1\nreferences = 1", "references = 1\nseeds = 1")
    moved.write_text(said + "smoothing = 0.1\n")  # the recipe's default
    assert read_suite(moved).name_in_commands == usual.name_in_commands
    for old, new in (
        ("[0.5]", "[0.7]"),
        ("size = 8", "size = 16"),
        ("0.25", "0.5"),
        ('"resnet-planted"', '"resnet8"'),
        ("epochs = 1", "epochs = 2"),
        ("seeds = 1\nreferences = 1", "seeds = 2\nreferences = 2"),
        ("seeds = 1", 'seeds = 1\ntuned_on = "test"'),
    ):
        suite = read_changed_suite(path, old, new)
        assert suite.version != usual.version, new
    assert (usual.tuned_on, suite.tuned_on) == (Split.TRAIN, Split.TEST)
    assert write_and_read_record(suite).tuned_on is Split.TEST
    assert "tuned_on" not in convert_user_suite_to_record(usual)  # so versions of older suites stay


def test_suite_file_blocks_set_levels_units_fills(path):
    own = '["roar"]\nblock = [{}, {protocols = ["morf"], levels = [0.9, 0.1], units = ["scalar", "pixel"]}]'
    blocks = [(block.protocol, block.levels, block.unit) for block in read_changed_suite(path, '["roar"]', own).blocks]
    morf = [(MORF, (0.1, 0.9), unit) for unit in (Unit.SCALAR, Unit.PIXEL)]
    assert blocks == [(ROAR, (0.5,), Unit.SCALAR), *morf]
    suite = read_changed_suite(path, '["roar"]', '["roar", "mask-only"]\nfills = ["mean", "linear"]')
    filled = [(block.protocol.name, block.fill) for block in suite.blocks]
    assert filled == [("roar", "mean"), ("roar", "linear"), ("mask-only", "mean")]


def test_suite_file_blocks_use_named_estimator_lists(path):
    """The paper has 18 estimators: six forms of three base estimators (Hooker et al. 2019, table 2)."""
    own = """lists = {mine = ["gradcam", "controls"]}
add_controls = false
block = [{estimators = ["random", "paper~blurred"]}, {protocols = ["morf"], estimators = ["mine"]}]
seeds"""
    twins, mine = (block.estimators for block in read_changed_suite(path, "seeds", own).blocks)
    assert twins[0] == "random" and len(twins) == 1 + 18 and {"grad~blurred", "var-ig~blurred"} < set(twins)
    assert mine == ("gradcam", *CONTROLS)
    assert read_changed_suite(path, '["grad"]', '["controls", "grad"]').estimators == (*CONTROLS, "grad")


def test_suite_file_explains_published_weights(path):
    suite = read_changed_suite(path, "references = 1", 'explains = ["torchvision:resnet50-v1"]')
    assert (suite.given, suite.references) == ("torchvision:resnet50-v1@0676ba61", 1)
    assert find_default_explained_weights(suite) == suite.given and suite.version != read_suite(path).version
    kept = write_and_read_record(suite)
    assert (kept.name_in_commands, kept.given) == (suite.name_in_commands, suite.given)


@pytest.mark.parametrize("protocol", ["morf", "own-network"])
def test_suite_without_training_accepts_test_images_only(protocol, path):
    (path.parent / "pictures").rename(path.parent / "kept")
    for number, name in enumerate(("2", "0", "10")):
        shutil.copytree(path.parent / "kept" / CLASSES[number], path.parent / "pictures" / name)
    text = TEXT.replace('["roar"]', f'["{protocol}"]').replace(SHARE, 'test = "."\nclasses = 12')
    path.write_text(text.replace("references = 1", "references = 3").replace("seeds = 1", "seeds = 3"))
    suite = read_suite(path)
    data = suite.dataset_record
    assert (data.classes, data.train_images, data.test_images, data.test_only) == (12, 24, 24, True)
    assert suite.explain_inapplicable("linear-classifier") == "it is fitted to training images, but the suite has none"
    assert not suite.explain_inapplicable("deviation")
    assert write_and_read_record(suite).dataset_record.numbered


def test_suite_file_reads_preprocessing_of_network(path, monkeypatch):
    """Bytes of mean 127.5 are .5 in [0, 1]; 224 / .9 = 248.9, which timm rounds down."""
    usual = read_suite(path)
    cropped = read_changed_suite(path, SIZE, 'size = 8\ncrop = 0.5\nabout = "birds"').dataset_record
    assert (cropped.crop, cropped.about) == (0.5, "birds")
    said = "size = 8\nresize = 10\nmean = [0.5, 0.5, 0.5]\nstd = [0.5, 0.4, 0.2]"
    suite = read_changed_suite(path, SIZE, said)
    data = suite.dataset_record
    assert (data.size, data.resize, data.interpolation, data.crop) == (8, 10, "bilinear", 1.0)
    assert (data.mean, data.std) == ((127.5, 127.5, 127.5), (127.5, 102.0, 51.0))
    scaled = read_changed_suite(path, SIZE, f"{said}\nrange = 1")
    assert scaled.name_in_commands == suite.name_in_commands != usual.name_in_commands
    kept = json.loads(encode_canonically(convert_user_suite_to_record(suite)))
    assert read_user_suite_record(kept).dataset_record == replace(data, folder="")
    kept["dataset"] |= {"interpolation": "cubist"}
    with pytest.raises(CallerError, match="interpolation is 'cubist', expected nearest, "):
        read_user_suite_record(kept)
    published = read_changed_suite(path, SIZE, 'preprocessing = "torchvision:resnet50/IMAGENET1K_V2"').dataset_record
    assert (published.size, published.resize, published.interpolation) == (224, 232, "bilinear")
    assert published.mean == pytest.approx((123.675, 116.28, 103.53))  # of torchvision's documentation, times 255
    about = {"input_size": (3, 224, 224), "crop_pct": 0.9, "crop_mode": "center", "interpolation": "bicubic"}
    about |= {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    timm = SimpleNamespace(is_model=lambda name: True, get_pretrained_cfg=lambda name: SimpleNamespace(**about))
    monkeypatch.setitem(sys.modules, "timm", timm)
    assert read_published_preprocessing("timm:net") == (248, 224, "bicubic", (127.5,) * 3, (63.75,) * 3)
    about["crop_mode"] = "squash"
    said = r"squash: it scales both sides .* make photographs square, and write size = 224, resize = 248, inter"
    with pytest.raises(CallerError, match=f"timm:net crops by {said}"):
        read_published_preprocessing("timm:net")


def test_suite_file_reads_hub_data_set_or_network_file(path):
    revision = "0123456789" * 4
    said = f'hub = "me/mine"\nrevision = "{revision}"\nsize = 8\nclasses = 3\ntrain_images = 30\ntest_images = 9\n'
    said += 'train = "train"\ntest = "test"\nimage_column = "img"'
    data = read_changed_suite(path, f"{IMAGES}\n{SIZE}\n{SHARE}", said).dataset_record
    assert (data.hub, data.revision, data.image_column, data.label_column) == ("me/mine", revision, "img", "label")
    models = set()
    for text in ("def build(classes, channels, size): ...\n", "# another\ndef build(classes, channels, size): ...\n"):
        (path.parent / "net.py").write_text(text)
        suite = read_changed_suite(path, '"resnet-planted"', '"net.py:build"')
        assert suite.model.startswith("net.build@") and suite.network_source == text
        models.add(suite.model)
    assert len(models) == 2


def test_table_suite_drops_estimators_that_need_neighbours(table_suite_path):
    suite = read_suite(table_suite_path)
    data = suite.dataset_record
    assert (data.own, data.shape, data.classes, data.train_images, data.test_images) == (TABLE, (4, 1, 1), 2, 30, 10)
    assert suite.estimators_with_own_row[:2] == ("random", "grad")
    assert suite.controls == ("random",)  # the only control is added
    fit = check_network_and_drop_estimators(suite).suite
    assert fit.left_out == dict.fromkeys(("sobel", "random-blurred", "gradcam", "ig(baseline=blur)"), NO_NEIGHBOURS)
    assert fit.estimators == ("random", "grad")
    reversed_columns = read_changed_suite(table_suite_path, "label_column", 'columns = ["two", "one"], label_column')
    part = check_network_and_drop_estimators(reversed_columns).suite
    kept = read_user_suite_record(convert_user_suite_to_record(part))
    assert kept.dataset_record.columns == ("two", "one")
    assert (kept.name_in_commands, kept.dataset_record) == (part.name_in_commands, part.dataset_record.without_location)


NAME, IMAGES, SHARE, SIZE = 'name = "pictures"', 'images = "pictures"', "test_share = 0.25", "size = 8"
WRONG = (
    (NAME, 'name = "My Photos"', "name is 'My Photos', expected 1 to 40 lowercase letters, digits, hyphens; "),
    (NAME, 'name = "図"', "name is '図', expected 1 to 40 lowercase letters, digits, hyphens; write name = \"mine\""),
    (NAME, 'name = "quick"', "name is 'quick', which is a suite of roarbench; write another"),
    ('["roar"]', '"roar"', "protocols is 'roar', expected a list of names; write protocols = [\"…\"]"),
    ('["grad"]', '["truth"]', "estimators has 'truth', which needs generated images; leave it out"),
    ("[0.5]", "[50]", "levels is [50], expected a list of numbers from 0.01 to 1; write levels = [0.5]"),
    ("levels", "level", "no key 'level'; did you mean 'levels'?"),
    ("[network]", "[netwrok]", "no key 'netwrok'; did you mean 'network'?"),
    ("seeds = 1", "seeds = true", "seeds is True, expected a whole number from 1 to 1000; write seeds = 3"),
    ("seeds = 1", "seed = 1", "no key 'seed'; did you mean 'seeds'?"),
    ("references = 1", "references = 3", "references is 3 and seeds is 1, but each seed explains only one network; "),
    ('["roar"]', '["own-network"]', "references is 1, but own-network compares networks with each other; use 3 "),
    ("size = 8", 'size = 8\nname = "../../x"', "dataset is '../../x-"),
    (
        "seeds = 1",
        'seeds = 1\nabout = "\\u001b[2J"',
        "about is '\\x1b[2J', expected one line of at most 1000 printable characters",
    ),
    (SHARE, "", ', [data]: names no split; write train = "…" and test = "…", or test_share = 0.2'),
    (
        SHARE,
        f'{SHARE}\ntrain = "a"',
        ", [data]: has train and test_share; write either train and test, or only test_share",
    ),
    (SHARE, 'train = "."', ", [data]: has train and no test; "),
    (SHARE, 'test = "."', 'roar trains networks, but [data] has only test images; write train = "…" under [data], or '),
    (IMAGES, f"{IMAGES}\nclasses = 4", "has the folder 'blue', but classes is 4; name each folder by the number"),
    (IMAGES, 'images = "nowhere"', "nowhere; write the path of a folder, relative to the suite's file"),
    (IMAGES, 'table = "nowhere.csv"', "nowhere.csv; write the path of a parquet or CSV file, relative to the suite's"),
    (IMAGES, f'{IMAGES}\nhub = "a/b"', ", [data]: has images and hub; write one of images"),
    (SIZE, "size = 8\nresize = 7", "resize is 7, expected a whole number from 8 to "),
    (
        SIZE,
        "size = 9\nresize = 8",
        "[data]: resize is 8, but the square to cut out has 9 pixels per side; write resize = 9 or more",
    ),
    (SIZE, 'size = 8\nresize = 9\ninterpolation = "cubic"', "interpolation is 'cubic', expected nearest, box, bili"),
    (
        SIZE,
        'size = 8\ninterpolation = "bicubic"',
        "has interpolation without resize; write resize = N (short side in pixels)",
    ),
    (
        SIZE,
        "size = 8\nresize = 9\ncrop = 0.9",
        "has crop and resize; leave crop out, because size is the side of the square",
    ),
    (SIZE, "size = 8\nmean = [0.5, 0.5, 0.5]", "[data]: std is missing, expected a list of numbers; write std = [0."),
    (SIZE, "size = 8\nmean = [0.5]\nstd = [0.5]", "it has mean (0.5,) and std (0.5,); expected 3 numbers each"),
    (SIZE, 'size = 8\npreprocessing = "timm:x"', "has preprocessing and size; leave one of them out"),
    (SIZE, 'preprocessing = "imagenet"', "preprocessing is 'imagenet', expected torchvision:NAME/WEIGHTS or timm:NAME"),
    (SIZE, 'preprocessing = "torchvision:resnet18"', "no weights of torchvision:resnet18 ''; known: DEFAULT, IMAGENET"),
    (SIZE, 'preprocessing = "timm:x"', "timm:x needs timm, which is not installed; run pip install timm"),
    (IMAGES, 'images = "pictures/red"', "red has 8 images and no class folders; put the images of each class"),
    (IMAGES, 'hub = "mine"\nrevision = "main"', ", [data]: hub is 'mine', expected OWNER/NAME as in the address"),
    (IMAGES, "hub = 7", ", [data]: hub is 7, expected a string; write hub = "),
    (IMAGES, 'hub = "me/mine"\nrevision = "main"', ", [data]: revision is 'main', expected the 40 digits of a commit"),
    ('"resnet-planted"', '"net.py"', ", [network]: name is 'net.py', expected torchvision:NAME, timm:NAME or FILE"),
    ('"resnet-planted"', '"net.py:build"', ", [network]: cannot read "),
    ('"resnet-planted"', '"resnet-planted"\nsize = 8', ", [network]: no key 'size'; known: name, weights"),
    (
        "epochs = 1",
        "sides = 1",
        ", [recipe]: sides is 1, expected a list of fractions of the image side; write sides = [0.5, 1.0]",
    ),
    ("epochs = 1", "compile = 1", ", [recipe]: compile is 1, expected true or false"),
    ("seeds = 1", "seeds = 1\n[[block]]\n[[block]]\nseed = 2", ", [[block]] 2: no key 'seed'; did you mean 'seeds'?"),
    ("seeds = 1", "seeds = 1\n[block]\nseeds = 2", "expected a list of tables; write [[block]] on a line of its own"),
    ("seeds = 1", "version = 2", "has a version, which only roarbench's own suites have; leave it out"),
    ("seeds = 1", 'explains = ["resnet"]', "no reference 'resnet'; known: torchvision:resnet50-v1, "),
    ("seeds = 1", 'lists = {grad = ["ig"]}', ", [lists]: grad is the name of a built-in list or estimator; "),
    ("seeds = 1", "add_controls = 1", "add_controls is 1, expected true or false; write add_controls = false"),
    ("seeds = 1", "add_controls = false", 'roar lacks random, with which its rows are compared; write "random" in '),
    ("seeds = 1", "seeds: 1", " is not TOML: "),
    ('["roar"]', '["matched"]\nfills = ["linear"]', "for protocols that exchange masks use mean, black, "),
)
WRONG_ON_TABLE = (
    ('"kind"', '"kinds"', "[data]: mine.csv has no column 'kinds'; did you mean 'kind'?"),
    ('"tabular@1"', '"quick@2"', "quick@2(epochs=4) moves or shrinks images, "),
    ("seeds = 2", 'seeds = 2\nunits = ["pixel"]', "unit is 'pixel', but a table has no pixels"),
    ('["matched", "roar"]', '["roar"]\nfills = ["blur"]', "fill 'blur' is computed from neighbouring"),
)


def test_suite_file_accepts_byte_order_mark(path):
    expected = read_suite(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_suite(path) == expected


@pytest.mark.parametrize("suite", ["path", "table_suite_path"])
def test_suite_file_treats_black_as_zero(suite, request):
    path = request.getfixturevalue(suite)
    text = path.read_text()
    texts = (text.replace("levels =", f'fills = ["{word}"]\nlevels =', 1) for word in ("black", "zero"))
    black, zero = (parse_suite(changed_text, path) for changed_text in texts)
    assert black == zero and {block.fill for block in black.blocks} == {"zero"}


@pytest.mark.parametrize(
    ("suite", "old", "new", "said"),
    [*(("path", *case) for case in WRONG), *(("table_suite_path", *case) for case in WRONG_ON_TABLE)],
)
def test_invalid_suite_file_raises_error_with_location(suite, old, new, said, request):
    path = request.getfixturevalue(suite)
    with pytest.raises(CallerError) as refused:
        read_changed_suite(path, old, new)
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(path.with_stem("changed")))
    assert "\n" not in str(refused.value)
