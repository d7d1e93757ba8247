"""The map of the pool: within the square, repeatable, by principal components."""

import numpy as np

from everylabel.web.downloads import layout


def test_layout_lies_within_the_square_and_is_repeatable() -> None:
    features = np.random.default_rng(0).normal(size=(6000, 12)) * np.r_[9.0, 5.0, np.ones(10)]
    points, method = layout(features.astype(np.float16), np.random.default_rng(1))
    assert (points.shape, method) == ((6000, 2), "pca")
    assert points.min() >= 0
    assert points.max() <= 1
    again, _ = layout(features.astype(np.float16), np.random.default_rng(1))
    assert np.array_equal(points, again)
    for axis in (0, 1):  # the two directions of most spread, up to their signs
        assert abs(np.corrcoef(points[:, axis], features[:, axis])[0, 1]) > 0.95
    for flat in (np.ones((7, 3)), np.ones((1, 1)), np.eye(2)):
        assert np.isfinite(layout(flat, np.random.default_rng(0))[0]).all()


def test_layout_is_that_of_principal_components() -> None:
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(3)
    features = rng.normal(size=(500, 40)) * np.linspace(3.0, 0.5, 40) + 5.0
    points, _ = layout(features, np.random.default_rng(0))
    inside = ((points > 0) & (points < 1)).all(axis=1)  # what lies beyond the edge is drawn on it
    wanted = PCA(2).fit_transform(features)
    for axis in (0, 1):
        assert abs(np.corrcoef(points[inside, axis], wanted[inside, axis])[0, 1]) > 0.999
