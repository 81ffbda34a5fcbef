"""The tables of scripts/pairings_tables.py: by hand, on answers that are made up."""

from importlib import import_module

import numpy as np
import pytest

CLASSES, IMAGES, SEED = 4, 80, 1
LABELS = np.random.default_rng(0).integers(0, CLASSES, IMAGES)


@pytest.fixture
def tables():
    return import_module("pairings_tables")


@pytest.fixture
def owners(tables):
    """The class of the image whose map each image is handed, for eight pairings."""
    return LABELS[np.stack(tables.pairings(IMAGES, SEED, 8))]


def studied(tables, folder, own, others):
    """A row's answers, as classes said with certainty, the same at every level."""
    certain = np.eye(CLASSES, dtype=np.float16)
    for t in tables.LEVELS:
        file = tables.AnsweredCell("grad", SEED, t).file(folder)
        np.savez(file, own=certain[own], others=certain[others], mirrored=certain[own])
    return tables.PairingStudy(folder, LABELS, (SEED,), ("",))


def test_a_mask_that_decides_the_answer_draws_it_to_its_own_images_class(tables, owners, tmp_path):
    study = studied(tables, tmp_path, LABELS, owners)
    assert list(tables.pull(study, "grad")) == ["+100.0 [+100.0, +100.0]"] * 3


def test_a_network_that_reads_no_mask_is_drawn_nowhere(tables, owners, tmp_path):
    study = studied(tables, tmp_path, LABELS, np.broadcast_to(LABELS, owners.shape))
    assert list(tables.pull(study, "grad")) == ["0.0 [0.0, 0.0]"] * 3


def test_gains_where_masks_tell_the_class_and_nothing_else_counts(tables, owners, tmp_path):
    """Every answer is the class of the mask's image: own maps cost nothing, and those of the same class neither."""
    study = studied(tables, tmp_path, LABELS, owners)
    gains = tables.area(study.differences("grad", tables.answered))
    np.testing.assert_array_equal(study.same_class, (owners == LABELS)[None])
    assert (gains[study.same_class] == 0).all()
    left = 1 - 0.05 / 0.9  # of the range of levels, what the point of untouched images does not stand for
    np.testing.assert_allclose(gains[~study.same_class], -100 * left, rtol=1e-5)


def test_more_pairings_leave_less_noise_of_the_pairing_alone(tables, tmp_path):
    """Answers with other images' maps are a coin each, those with own maps are right: variance goes with the number."""
    coins = np.random.default_rng(1).integers(0, 2, (8, IMAGES))
    study = studied(tables, tmp_path, LABELS, np.where(coins, LABELS, (LABELS + 1) % CLASSES))
    gains = tables.area(study.differences("grad", tables.answered))[0]
    one, eight = (study.error(values)[0] for values in (gains[0], gains.mean(0)))
    assert one / eight == pytest.approx(8, rel=0.5)


def test_levels_with_fewer_pairings_are_compared_by_those_that_all_have(tables, tmp_path):
    study = studied(tables, tmp_path, LABELS, np.broadcast_to(LABELS, (8, IMAGES)))
    answers = np.eye(CLASSES, dtype=np.float16)[LABELS]
    for t in (0.3, 0.7):
        file = tables.AnsweredCell("grad", SEED, t).file(tmp_path)
        np.savez(file, own=answers, others=answers[None], mirrored=answers)
    assert study.differences("grad", tables.answered, (0.1, 0.3, 0.5)).shape == (1, 1, 3, IMAGES)
    assert study.differences("grad", tables.answered).shape == (1, 8, 3, IMAGES)


def test_averaged_weights_are_judged_by_how_far_a_difference_varies(tables, tmp_path):
    """Of `grad` a network's answers with another image's map are all right; with its own a share that is its seed's."""
    program, certain = import_module("network_tables"), np.eye(CLASSES, dtype=np.float16)
    for name, wrong in (("quick-10", (0, 8, 16, 24)), ("quick-10-averaged", (8, 12, 16, 12))):
        for seed, count in enumerate(wrong):
            for row in tables.ROWS:
                own = np.where(np.arange(IMAGES) < (count if row == "grad" else 0), (LABELS + 1) % CLASSES, LABELS)
                held = {f"own-{t:g}": certain[own] for t in tables.LEVELS}
                held |= {f"other-{t:g}": certain[LABELS] for t in tables.LEVELS}
                np.savez(tmp_path / f"{name}-{seed}-{row}.npz", **held)
    *rows, last = program.averaging(LABELS, tmp_path, range(4))
    left = 1 - 0.05 / 0.9
    shares = [np.array(wrong) / IMAGES * 100 * left for wrong in ((0, 8, 16, 24), (8, 12, 16, 12))]
    expected = [f"{share.mean():+.1f}" for share in shares] + [f"{share.var(ddof=1):.2f}" for share in shares]
    assert rows[tables.ROWS.index("grad") - 1] == ["`grad`", *expected]
    assert rows[0][1:] == ["0.0", "0.0", "0.00", "0.00"]
    assert f": {shares[1].var() / shares[0].var():.2f} [" in last[-1]
