"""Break every formula in turn and see a test fail: `make mutants`.

Each mutant replaces one line of the source in a temporary copy and runs the tests named; a mutant
that survives is a formula no test looks at.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rich.progress import track

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """One broken line."""

    file: str
    right: str
    wrong: str
    tests: str


CORE = [
    Mutant("scale/numbers.py", "= -features.center @ features.matrix", "= features.center @ features.matrix", "scale/test_page.py"),
    Mutant("scale/numbers.py", "cov=folds @ to_numpy(posterior.cov) @ folds.T", "cov=to_numpy(posterior.cov)", "scale/test_page.py"),
    Mutant("scale/pool.py", "found = _within(numbers.few, idx)", "found = numbers.few", "scale/test_pool.py"),
    Mutant("scale/pool.py", "found = _within(self.numbers.ask(\"top_few\", score, n), idx)", "found = self.numbers.ask(\"top_few\", score, n)", "scale/test_pool.py"),
    Mutant("scale/shown.py", "row // EVERY], row % EVERY", "row // EVERY], 0", "scale/test_shown.py"),
    Mutant("integrations/laplace.py", "(np.c_[weights, k * d + np.arange(k)] if bias else weights).reshape(-1)", "np.arange(k * (d + bias))", "integrations/test_laplace.py"),
    Mutant("integrations/laplace.py", "precision[np.ix_(order, order)] = np", "precision[:] = np", "integrations/test_laplace.py"),
    Mutant("integrations/river.py", "old = np.r_[: d - 1, d + n - 1]", "old = np.r_[:d]", "integrations/test_river.py"),
    Mutant("integrations/river.py", "= 1.0 / posterior.prior_precision", "= posterior.prior_precision", "integrations/test_river.py"),
    Mutant("integrations/river.py", "np.insert(mean, [d - 1] * n, 0.0, axis=0)", "np.insert(mean, [d] * n, 0.0, axis=0)", "integrations/test_river.py"),
    Mutant("labelling/finishing.py", "betaincinv(wrong + 1, n - wrong, confidence)", "betaincinv(wrong + 0.5, n - wrong, confidence)", "labelling/test_finishing.py"),
    Mutant("labelling/finishing.py", "1.0 - (1.0 - confidence) / len(SHARES)", "confidence", "labelling/test_finishing.py"),
    Mutant("labelling/queues.py", "np.argsort(-scores", "np.argsort(scores", "labelling/test_queues.py"),
    Mutant("labelling/queues.py", "found.guess != found.label", "found.guess == found.label", "labelling/test_queues.py"),
    Mutant("selection/pool/margins.py", "-np.expm1(second - first)", "-(second - first)", "selection/test_strategies.py"),
    Mutant("selection/pool/margins.py", "(1.0 + apart) * len(logits)", "1.0", "selection/test_strategies.py"),
    Mutant("selection/pool/margins.py", "np.minimum(row, first, out=low)", "row", "selection/test_strategies.py"),
    Mutant("core/kernel.py", "eye(root.shape[-1], cov) + sign", "eye(root.shape[-1], cov) - sign", "core/test_updates.py"),
    Mutant("core/kernel.py", "(curvature / scale) ** 0.5", "curvature**0.5", "core/test_kernel.py"),
    Mutant("core/kernel.py", "+ curvature @ gram, residual", "+ gram, residual", "core/test_kernel.py"),
    Mutant("core/kernel.py", "step_size * weight / (1.0 + weight", "step_size / (1.0 + weight", "core/test_kernel.py"),
    Mutant("core/kernel.py", "step_size * weight / (1.0 + weight * curvature(probs) * variance)", "step_size * weight / (1.0 + weight * variance)", "core/test_kernel.py"),
    Mutant("core/kernel.py", "@ steps[..., :i, :])[..., 0, :]", "@ steps[..., :i, :])[..., 0, :] * 0.0", "core/test_kernel.py"),
    Mutant("core/kernel.py", "weight * curvature(after)", "weight * curvature(probs)", "core/test_kernel.py"),
    Mutant("core/kernel.py", "seen[..., i + 1 :] -= ", "seen[..., i + 1 :] += ", "core/test_kernel.py"),
    Mutant("core/kernel.py", "scale = 1.0 + sign * curvature * variance\n    return", "scale = 1.0 + curvature * variance\n    return", "core/test_kernel.py"),
    Mutant("core/kernel.py", "array_namespace(scale).clip(scale, LEAST, None)", "scale", "core/test_kernel.py"),
    Mutant("core/kernel.py", "return seen - (taken", "return seen + (taken", "core/test_kernel.py"),
    Mutant("core/likelihoods/shared.py", "top * (1.0 - top)", "top", "core/test_posteriors.py"),
    Mutant("core/likelihoods/shared.py", "probs[..., 0] * (1.0 - probs[..., 0])", "probs[..., 0]", "core/test_posteriors.py"),
    Mutant("core/likelihoods/shared.py", "residual / (1.0 + curvature[0] * seen.gram[0, 0])", "residual", "core/test_updates.py"),
    Mutant("core/likelihoods/per_class.py", "(at.probs * (1.0 - at.probs)).T", "(at.probs * at.probs).T", "core/test_posteriors.py"),
    Mutant("core/likelihoods/full.py", "float(c == e) - probs", "float(c == e) + probs", "core/test_posteriors.py"),
    Mutant("core/likelihoods/full.py", "diagonal(half) - probs", "diagonal(half) + probs", "core/test_updates.py"),
    Mutant("core/likelihoods/matrix_normal.py", "(1.0 - beta * eps) * precision", "precision", "core/test_posteriors.py"),
    Mutant("core/likelihoods/matrix_normal.py", "/ (1.0 - beta * eps)", "/ 1.0", "core/test_updates.py"),
    Mutant("core/likelihoods/matrix_normal.py", "inverse_of_precision(precision / d)", "inverse_of_precision(precision)", "core/test_posteriors.py"),
    Mutant("core/updates/second_order.py", "at = at._replace(probs=kind.link(new.features @ mean))  #", "#", "core/test_updates.py"),
    Mutant("core/updates/second_order.py", "posterior.mean - cov_h @ learned.weights", "posterior.mean", "core/test_updates.py"),
    Mutant("core/updates/second_order.py", "add_outer(posterior.cov, cov_h @ learned.root, -1)", "posterior.cov", "core/test_updates.py"),
    Mutant("core/candidates.py", "grown / xp.where(total", "grown * xp.where(total", "core/test_candidates.py"),
    Mutant("core/candidates.py", ") + top[:, 0]", ")", "core/test_candidates.py"),
    Mutant("core/newton.py", "self.probs - self.shares", "self.probs", "core/test_candidates.py"),
    Mutant("core/training.py", "while point.shares is not None", "while False", "core/test_candidates.py"),
    Mutant("core/updates/partial.py", "design @ posterior.mean) - shares", "design @ posterior.mean) + shares", "core/test_candidates.py"),
    Mutant("core/updates/first_order.py", "mean - step_size * (", "mean + step_size * (", "core/test_updates.py"),
    Mutant("core/updates/monte_carlo.py", "samples.log_weights + step_size * explained", "samples.log_weights + explained", "core/test_monte_carlo.py"),
    Mutant("core/updates/monte_carlo.py", "log_softmax(float64(logits))", "float64(logits)", "core/test_monte_carlo.py"),
    Mutant("core/softmax.py", "xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))", "xp.exp(logits)", "core/test_softmax.py"),
    Mutant("core/softmax.py", "shifted = logits - xp.max(logits, axis=-1, keepdims=True)", "shifted = logits", "core/test_softmax.py"),
    Mutant("core/softmax.py", "shifted - xp.log(", "logits - xp.log(", "core/test_softmax.py"),
    Mutant("core/revise.py", "mean = posterior.mean + step_size * apply_cov(kind, posterior, design, residual)", "mean = posterior.mean + apply_cov(kind, posterior, design, residual)", "core/test_revise.py"),
    Mutant("core/revise.py", "posterior.mean - step_size * moved", "posterior.mean - moved", "core/test_revise.py"),
    Mutant("core/revise.py", "towards = weight * (now - was)", "towards = weight * (was - now)", "core/test_revise.py"),
    Mutant("selection/pool/state.py", "residual[0, step.before] += step.weight", "pass", "selection/test_closed_form.py"),
    Mutant("selection/pool/state.py", "self.weight * (kind.link(design @ posterior.mean) - certain)", "kind.link(design @ posterior.mean) - certain", "selection/test_closed_form.py"),
    Mutant("labelling/learner.py", "            pool.put(item, Where.FREE)", "            pass", "labelling/test_learner.py"),
    Mutant("labelling/learner.py", "self.pool.n_classes > TAUGHT_UP_TO", "self.pool.n_classes > 10**12", "labelling/test_names.py"),
    Mutant("selection/pool/numbers.py", "self._room[before:k] = 0.0", "self._room[before:k] = 1.0", "selection/test_pool.py"),
    Mutant("labelling/predicted.py", "MOST_NUMBERS // max(1, n_columns)", "MOST_NUMBERS", "labelling/test_views.py"),
    Mutant("selection/pool/kept.py", "np.asarray(wide(known.residual, posterior))", "0.0 * np.asarray(wide(known.residual, posterior))", "selection/test_closed_form.py"),
    Mutant("labelling/replay.py", "if rows_digest(ledger.ids, learner.pool.features) != kept.rows:", "if False:", "labelling/test_kept.py"),
    Mutant("labelling/kept.py", "or log.mark(kept.seq) != kept.log", "", "labelling/test_kept.py"),
    Mutant("labelling/replay.py", "if since <= LATELY:", "if since <= 10**9:", "labelling/test_replay.py"),
    Mutant("labelling/replay.py", "learner.follow(changes[:aside], later=True)", "learner.follow(changes[:aside])", "labelling/test_replay.py"),
    Mutant("core/revise.py", "posterior.mean + apply_cov(", "posterior.mean - apply_cov(", "core/test_updates.py"),
    Mutant("core/updates/second_order.py", "mean = posterior.mean - step_size * apply_cov(kind, here", "mean = posterior.mean - step_size * apply_cov(kind, posterior", "core/test_updates.py::test_more_labels_than_features"),
    Mutant("core/predict.py", "1.0 + factor * _variance", "1.0 + _variance", "core/test_predict.py"),
    Mutant("core/descent.py", "(curved / float(y @ y)) * turned", "turned", "core/test_descent.py"),
    Mutant("core/descent.py", "turned = turned - shares[-1] * y", "turned = turned + shares[-1] * y", "core/test_descent.py"),
    Mutant("core/descent.py", "share - float(y @ turned) / curved", "share + float(y @ turned) / curved", "core/test_descent.py"),
    Mutant("core/descent.py", "bent + single.prior_precision * squared", "bent", "core/test_descent.py"),
    Mutant("core/training.py", "prior_precision=0.5 * prior_precision", "prior_precision=prior_precision", "core/test_descent.py"),
    Mutant("core/training.py", "[-0.5 * column, 0.5 * column]", "[-column, column]", "core/test_descent.py"),
    Mutant("core/training.py", "label_sums=rotation.T @ label_sums", "label_sums=0.5 * rotation.T @ label_sums", "core/test_training.py::test_equals_scikit_learn_on_digits"),
    Mutant("core/newton.py", "self.label_sums + self.prior_precision * mean", "self.label_sums + mean", "core/test_training.py"),
    Mutant("core/newton.py", "moved - probs * xp.sum(moved, axis=1, keepdims=True)", "moved", "core/test_exact_parts.py"),
    Mutant("core/newton.py", "self.weights[:, None] * (moved - probs * moved)", "moved - probs * moved", "core/test_exact_parts.py"),
    Mutant("core/newton.py", "+ objective.prior_precision * search)", "+ search)", "core/test_exact_parts.py"),
    Mutant("core/newton.py", "+ flat + length * steady", "+ flat", "core/test_exact_parts.py"),
    Mutant("core/newton.py", "low[0] + min(max(share, 0.1), 0.9)", "1.0 + 0.0", "core/test_exact_parts.py"),
    Mutant("core/preconditioner.py", "- xp.sum(full, axis=1)) / (k - n_top)", "- xp.sum(full, axis=1)) / k", "core/test_exact_parts.py"),
    Mutant("core/preconditioner.py", "(self.prior_precision / curvature)", "(1.0 / curvature)", "core/test_exact_parts.py"),
    Mutant("core/preconditioner.py", "(rows @ matrix[:, c]) @ rows", "0.5 * (rows @ matrix[:, c]) @ rows", "core/test_exact_parts.py"),
    Mutant("core/preconditioner.py", "(q / (1.0 + q * variance)) ** 0.5", "q**0.5", "core/test_exact_parts.py"),
    Mutant("core/updates/dual.py", "diagonal = 1.0 + weight * spread", "diagonal = 1.0 + weight * probs", "core/test_exact_parts.py"),
    Mutant("core/updates/dual.py", "gradient = a - weight * (labels - probs)\n            higher", "gradient = a - (labels - probs)\n            higher", "core/test_exact_parts.py"),
    Mutant("core/updates/dual.py", "0.5 * step, step)", "step, step)", "core/test_exact_parts.py"),
    Mutant("core/seen.py", "return e - self.shared[:, None] * ahead, ahead", "return e - ahead, ahead", "core/test_span.py"),
    Mutant("core/seen.py", "through = among - self.gram @ bent", "through = among - 0.5 * (self.gram @ bent)", "core/test_span.py"),
    Mutant("core/seen.py", "own - bent.T @ through", "own", "core/test_span.py"),
    Mutant("core/seen.py", "+ change * rows[:, points]", "+ rows[:, points]", "core/test_span.py"),
    Mutant("core/seen.py", "(change / (1.0 + change * rows[0, points[0]]))", "change", "core/test_span.py"),
    Mutant("core/seen.py", "taken - self.shared[:, None] * through", "taken", "core/test_span.py"),
    Mutant("core/seen.py", "exactly @ exactly.T / prior", "exactly @ exactly.T", "core/test_span.py"),
    Mutant("core/seen.py", "root[:, :, None] * np.linalg.inv(system)", "np.linalg.inv(system)", "core/test_span.py"),
    Mutant("core/seen.py", "n_rest = k - min(TOP, k - 1)", "n_rest = k", "core/test_span.py"),
    Mutant("core/updates/span.py", "features.T @ pull) / self.prior", "features.T @ pull)", "core/test_span.py"),
    Mutant("core/updates/span.py", "turned += direction", "turned += 0.0", "core/test_span.py"),
    Mutant("core/updates/span.py", "(features[n:].T / problem.prior)", "features[n:].T", "core/test_span.py"),
    Mutant("core/updates/span.py", "expected * (1.0 - start.probs) if", "expected if", "core/test_span.py"),
    Mutant("core/updates/span.py", "pull = expected - bent", "pull = expected", "core/test_span.py::test_few_labels_end_at_the_optimum"),
    Mutant("core/updates/span.py", "start.pull - length * total[0]", "start.pull", "core/test_span.py"),
    Mutant("core/updates/exact.py", "probs = kind.link(new.features @ posterior.mean)  #", "probs = kind.link(0.0 * new.features @ posterior.mean)  #", "core/test_exact.py::test_covariance_is_conditioned_at_the_new_mean"),
    Mutant("core/updates/exact.py", "logits = logits + (objective.features @ shared)[:, None] *", "logits = logits + 0.0 *", "core/test_exact.py::test_one_by_one_all_at_once_and_training_are_equal"),
    Mutant("core/updates/exact.py", "mean[:, c] += float64(moved[:, j])", "pass", "core/test_exact.py::test_one_by_one_all_at_once_and_training_are_equal"),
    Mutant("core/updates/exact.py", "left is None or left.at.mean is not posterior.mean", "left is None", "core/test_exact.py::test_an_update_begins_with_what_the_last_one_left"),
    Mutant("core/updates/exact.py", "_left[data] = Left(Work(", "Left(Work(", "core/test_exact.py::test_an_update_begins_with_what_the_last_one_left"),
    Mutant("core/labelled.py", "self.label_sums - summed", "self.label_sums", "core/test_exact.py::test_relabel_is_forget_and_update"),
    Mutant("core/labelled.py", "expected, prior = link(features @ mean), prior_precision * mean", "expected, prior = link(features @ mean), mean", "core/test_exact.py::test_without_labels_the_mean_is_taken_for_the_mode"),
    Mutant("core/labelled.py", "or buffer.claims.setdefault(n, writer) is not writer", "", "core/test_exact.py::test_older_posteriors_never_see_later_labels"),
    Mutant("core/labelled.py", "left[at] = left[at] - taken", "left[at] = 0.0", "core/test_exact.py::test_weights_are_taken_back_in_parts_and_from_twins"),
    Mutant("models/scaling.py", "NORM / spread", "1.0", "models/test_classifier.py::test_the_scale_of_features_does_not_matter"),
    Mutant("selection/pool/state.py", "Learned.after(self, revise.forget(posterior, self.features))", "Learned.after(self, posterior)", "selection/test_pool.py"),
    Mutant("selection/pool/state.py", "gone += self._conditioned(idx)", "pass", "selection/test_state.py"),
    Mutant("selection/pool/state.py", "and self.steps[:n] == before.steps", "", "selection/test_state.py"),
    Mutant("selection/pool/view.py", "cov * np.trace(to_numpy(posterior.class_cov)) / k", "cov", "selection/test_view.py"),
    Mutant("selection/pool/cache.py", "/ v[at] ** 2", "/ v[at]", "selection/test_pool.py"),
    Mutant("labelling/rows.py", "range(at - at % BLOCK, at", "range(at, at", "labelling/test_joining.py"),
    Mutant("selection/pool/numbers.py", "np.concatenate([self.known, new])", "np.concatenate([self.known, 2 * new])", "selection/test_growth.py"),
    Mutant("selection/pool/numbers.py", "row -= factor * shift", "row += factor * shift", "selection/test_pool.py"),
    Mutant("selection/pool/numbers.py", "self.known -= ", "self.known += ", "selection/test_pool.py"),
    Mutant("selection/pool/features.py", "2.0 * cov[:-1, -1]", "cov[:-1, -1]", "selection/test_pool.py"),
    Mutant("selection/pool/local.py", "f.mean(axis=1)) if len(idx)", "f.max(axis=1)) if len(idx)", "selection/test_pool.py"),
    Mutant("selection/pool/loops.py", "out[i] = total + bias", "out[i] = total", "selection/test_pool.py"),
    Mutant("selection/pool/loops.py", "f[i] -= r * u[i]", "f[i] += r * u[i]", "selection/test_pool.py"),
    Mutant("selection/pool/loops.py", "(one_more + x) * k", "(one_more + x)", "selection/test_strategies.py"),
    Mutant("selection/lookahead/expected.py", "moved = x * np.exp(a)", "moved = x", "selection/test_lookahead.py"),
    Mutant("selection/lookahead/expected.py", "np.where(x >= 1.0, second, 1.0)", "1.0", "selection/test_lookahead.py"),
    Mutant("selection/lookahead/expected_loops.py", "new = old * grow[e]", "new = old", "selection/test_lookahead.py"),
    Mutant("selection/lookahead/expected_loops.py", "(ones - _ONE) + tail", "ones + tail", "selection/test_lookahead.py"),
    Mutant("selection/strategies/lookahead.py", "step / (1.0 + own)", "step / (2.0 + own)", "selection/test_lookahead.py"),
    Mutant("selection/strategies/lookahead.py", "step = step / 2.0", "pass", "selection/test_lookahead.py"),
    Mutant("selection/lookahead/optimal.py", "diagonal(kind.curvature(probs))", "diagonal(1.0 + kind.curvature(probs))", "selection/test_lookahead.py"),
    Mutant("selection/lookahead/optimal.py", "np.subtract(val_logits, moved", "np.add(val_logits, moved", "selection/test_lookahead.py"),
    Mutant("selection/lookahead/greedy.py", "condition_seen(gram, i, gram[i]", "condition_seen(gram, i, 0.0 * gram[i]", "selection/test_lookahead.py"),
    Mutant("selection/strategies/badge.py", "inner = (r @ r[i]) * ", "inner = ", "selection/test_strategies.py"),
    Mutant("selection/strategies/batchbald.py", "probs[:, some]) - conditional[some]", "probs[:, some])", "selection/test_strategies.py"),
    Mutant("selection/strategies/batchbald.py", "rng.random(most)[:, None] > edges", "rng.random(most)[:, None] < edges", "selection/test_strategies.py"),
    Mutant("core/leave_one_out.py", "return logits - xp.stack", "return logits + xp.stack", "core/test_leave_one_out.py"),
    Mutant("core/leave_one_out.py", "prior_precision + share * xp.clip", "prior_precision + xp.clip", "core/test_leave_one_out.py"),
    Mutant("core/leave_one_out.py", "1.0 - xp.take(known, asked) * own", "1.0 + xp.take(known, asked) * own", "core/test_leave_one_out.py"),
    Mutant("core/leave_one_out.py", "wider = k / (k - 1) if", "wider = 0.3 if", "core/test_leave_one_out.py"),
    Mutant("core/leave_one_out.py", "own / xp.clip(1.0 - curvature * own", "own / xp.clip(1.0 + curvature * own", "core/test_leave_one_out.py"),
    Mutant("models/scaling.py", "** (POWER / 2)", "** (-POWER / 2)", "models/test_scaling.py"),
    Mutant("models/scaling.py", "return weights, bias - self.center @ weights", "return weights, bias", "models/test_scaling.py"),
    Mutant("models/names.py", "np.concatenate(parts) - center + scaling.center", "np.concatenate(parts)", "models/test_names.py"),
    Mutant("models/names.py", "return told > _left_out", "return told < _left_out", "models/test_names.py"),
    Mutant("models/names.py", "max(len(numbers) / 2, LIGHTEST)", "max(len(numbers), LIGHTEST)", "models/test_names.py"),
    Mutant("models/names.py", "hits - chance > AGREEMENT", "hits + chance > -AGREEMENT", "models/test_names.py"),
    Mutant("models/class_names.py", "POOL_NORM / size if", "1.0 / size if", "models/test_class_names.py::test_rows_teach_whatever_is_trained"),
    Mutant("models/class_names.py", "are_of_use(rows, X, numbers, len(classes), precision)", "True", "models/test_class_names.py::test_labels_find_out_that_names_lie"),
    Mutant("selection/strategies/herding.py", "np.maximum(similar - covered, 0.0)", "similar", "selection/test_strategies.py::test_herding_is_a_loop_over_what_is_covered"),
    Mutant("selection/strategies/herding.py", "1.0 + math.pi / 8", "1.0 + 0 *", "selection/test_strategies.py::test_herding_is_a_loop_over_what_is_covered"),
    Mutant("labelling/replay.py", "start if last.names is None else start._replace(names_hold=last.names)", "start._replace(names_hold=True)", "labelling/test_names.py"),
    Mutant("selection/strategies/bait.py", "gain = shrinkage(own, c)", "gain = c", "selection/test_strategies.py"),
    Mutant("selection/strategies/bemps.py", "weights = probs / np.maximum(likely, 1e-30) / m", "weights = probs / m", "selection/test_strategies.py"),
    Mutant("selection/strategies/stochastic.py", "/ beta, n", "* beta, n", "selection/test_strategies.py"),
    Mutant("selection/strategies/coreset.py", "norms[i] - 2.0 * inner", "norms[i] - inner", "selection/test_strategies.py"),
    Mutant("selection/strategies/typiclust.py", "np.lexsort((-size, labelled,", "np.lexsort((size, labelled,", "selection/test_strategies.py"),
    Mutant("models/recipe.py", "scale * rectified", "scale", "models/test_recipe.py"),
    Mutant("models/last_layer.py", "middle - mean / 2", "middle - mean", "models/test_last_layer.py"),
    Mutant("models/last_layer.py", "features[rows, at]", "features[rows, 0]", "models/test_last_layer_transformers.py"),
    Mutant("models/last_layer.py", "self.layer.bias.copy_(weights[d])", "pass", "models/test_last_layer.py"),
    Mutant("models/forward.py", "module.training = mode", "module.training = model.training", "models/test_last_layer.py"),
    Mutant("models/members.py", "module.training = True", "pass", "models/test_members.py"),
    Mutant("models/embedding/tokens.py", "features[np.argsort(order)]", "features", "models/test_embedding.py"),
    Mutant("models/embedding/tokens.py", "(hidden * mask).sum(1)", "hidden.sum(1)", "models/test_embedding.py"),
    Mutant("models/embedding/embed.py", "len(rows) == n", "True", "models/test_embedding.py"),
    Mutant("data/datasets/pictures.py", "transpose(0, 2, 3, 1)", "reshape(-1, 32, 32, 3)", "data/test_datasets.py"),
    Mutant("core/updates/monte_carlo.py", "xp.exp(each.log_weights) for", "0.0 * each.log_weights + 0.1 for", "core/test_monte_carlo.py"),
    Mutant("core/updates/monte_carlo.py", "probs = logits / xp.sum(logits, axis=1, keepdims=True)", "probs = logits", "core/test_monte_carlo.py"),
    Mutant("core/updates/monte_carlo.py", "xp.exp(each.log_weights)", "xp.exp(samples.log_weights)", "experiments/test_updating.py"),
    Mutant("experiments/metrics.py", "- 2.0 * chosen + 1.0", "- chosen + 1.0", "experiments/test_summary.py"),
    Mutant("selection/pool/numbers.py", "self.logits += factors.T", "self.logits -= factors.T", "selection/test_pool.py"),
    Mutant("selection/pool/cache.py", "to_numpy(old.cov) @ self.numbers.rows(idx).T", "self.numbers.rows(idx).T", "selection/test_pool.py::test_the_change_of_many_labels_is_in_the_span_of_theirs"),
    Mutant("labelling/accuracy.py", "share * (1 - share) / n + z2", "share * (1 - share) + z2", "labelling/test_accuracy.py"),
    Mutant("labelling/accuracy.py", "+ precision @ (theta - center)", "+ precision @ theta", "labelling/test_accuracy.py"),
    Mutant("labelling/accuracy.py", "np.where(known, 0.5, 1.0) * weights", "0.5 * weights", "labelling/test_accuracy.py"),
    Mutant("labelling/accuracy.py", "_rows(left, np.ones(len(left)))", "_rows(left, np.zeros(len(left)))", "labelling/test_accuracy.py"),
    Mutant("labelling/accuracy.py", "(probs * (1.0 - probs)) @ there / len(left)", "probs @ there / len(left)", "labelling/test_accuracy.py"),
    Mutant("labelling/drawn.py", "by_chance / (by_chance + more)", "by_chance / more", "labelling/test_drawn.py"),
    Mutant("labelling/settling.py", "labels = ledger.test_labels if item in ledger.test else ledger.labels", "labels = ledger.labels", "labelling/test_ledger.py"),
    Mutant("labelling/training.py", "dict.fromkeys(none, n_classes)", "dict.fromkeys(none, 0)", "labelling/test_none.py"),
    Mutant("labelling/class_book.py", "if into is None:", "if into is not None:", "labelling/test_class_book.py"),
    Mutant("labelling/class_figures.py", "m.sum() ** 2 / (m @ m)", "m.sum()", "labelling/test_class_figures.py"),
    Mutant("labelling/assessing.py", "now[rows, guess] - then[rows, guess]", "now[rows, guess] - then.max(axis=1)", "labelling/test_assessing.py"),
    Mutant("labelling/assessing.py", "(weights @ surplus) / n", "(weights @ surplus)", "labelling/test_assessing.py"),
    Mutant("labelling/agreement.py", "- alike) / (m - 1)", "- alike) / m", "labelling/test_progress.py"),
    Mutant("labelling/agreement.py", "totals.values()) / (n - 1)", "totals.values()) / n", "labelling/test_progress.py"),
    Mutant("labelling/settling.py", "if _is_truth(ledger, answer)] or told", "if not _is_truth(ledger, answer)] or told", "labelling/test_ledger.py"),
    Mutant("labelling/ledger.py", "and item not in self.left", "", "labelling/test_ledger.py"),
    Mutant("label_studio/predictions.py", "0.5 + sure / 2 if rank is None", "0.5 - sure / 2 if rank is None", "label_studio/test_learning.py"),
    Mutant("label_studio/learning.py", "annotation.updated < known.updated", "annotation.updated > known.updated", "label_studio/test_learning.py"),
    Mutant("label_studio/learning.py", "self._touched.get(number, 0) > mark", "self._touched.get(number, 0) < mark", "label_studio/test_reconcile.py::test_an_older_look_undoes_nothing_newer"),
    Mutant("label_studio/learning.py", "for number in numbers if number not in self._removing", "for number in numbers", "label_studio/test_outbox.py"),
    Mutant("labelling/ledger.py", "self.history.shown(place), seq)", "0, seq)", "labelling/test_service.py::test_what_was_said_meanwhile_is_told_and_kept"),
    Mutant("labelling/presence.py", "self._clock() - BELIEVED", "self._clock() - 2 * BELIEVED", "labelling/test_presence.py"),
    Mutant("labelling/desk.py", "self.ledger.handed + len(waiting) + 1", "self.ledger.handed + 1", "labelling/test_desk.py"),
    Mutant("labelling/due.py", "item = learner.draw(rng)", "item = learner.pick(\"margin\", 1, rng)[0]", "labelling/test_service.py::test_random_checks_are_an_unbiased_estimate"),
    Mutant("labelling/learner.py", ".max(initial=-1.0) < COPIES", ".max(initial=-1.0) < 2.0", "labelling/test_service.py"),
    Mutant("labelling/rows.py", "high - start], factor,", "high - start], 1,", "labelling/test_service.py"),
    Mutant("labelling/settling.py", "for value in reversed(values) if", "for value in values if", "labelling/test_service.py"),
    Mutant("labelling/ruling_out.py", "said.pop(entry.person, None)", "pass", "labelling/test_not.py"),
    Mutant("labelling/training.py", "[c not in ruled_out[i] for", "[c in ruled_out[i] for", "labelling/test_not.py"),
    Mutant("selection/pool/doubts.py", "[[c not in ruled_out for", "[[True or c not in ruled_out for", "selection/test_ruled_out.py"),
    Mutant("labelling/replay.py", "if ledger.seq == upto:", "if False:", "labelling/test_replay.py"),
    Mutant("labelling/packing.py", '*("seq", "names", "n_names", "names_hold",', '*("seq", "names", "n_names",', "labelling/test_packing.py"),
    Mutant("projects/database/chain.py", 'digest(f"{before} ', 'digest(f"', "projects/test_sealing.py"),
    Mutant("projects/database/chain.py", "if row.seq == head.seq and before != head.chain", "if False", "projects/test_sealing.py"),
    Mutant("projects/database/sealing.py", "noted == head.items", "True", "projects/test_sealing.py"),
    Mutant("projects/database/guard.py", "noted[:2] != now[:2]", "False", "projects/test_writing.py"),
    Mutant("labelling/leases.py", "max(self._day() - lease.at, 0.0)", "self._day() - lease.at", "labelling/test_leases.py"),
    Mutant("projects/journal.py", "found = found[sums == found[\"check\"]]", "found = found[sums == sums]", "web/test_arrivals.py"),
    Mutant("projects/feature_check.py", "known and names and features_digest", "False and features_digest", "web/test_arrivals.py"),
    Mutant("data/changes.py", "taken, numbers = {*known, *sent}", "taken, numbers = {*known}", "web/test_arrivals.py"),
    Mutant("data/readers/whole_rows.py", "elif row != [_END]:", "elif False:", "web/test_arrivals.py"),
    Mutant("data/datasets/fetch.py", "have if response.status == 206 else 0", "have", "data/test_fetch.py"),
]  # fmt: skip


def survives(mutant: Mutant) -> bool:
    """Return whether the tests pass although the line is broken."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, copy / part)
        shutil.copy(ROOT / "pyproject.toml", copy)
        path = copy / "src" / "everylabel" / mutant.file
        source = path.read_text()
        if mutant.right not in source:
            raise SystemExit(f"{mutant.file} has no {mutant.right!r} any more; bring the mutant up to date")
        path.write_text(source.replace(mutant.right, mutant.wrong, 1))
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", f"tests/{mutant.tests}"]
        env = {"PYTHONPATH": str(copy / "src"), "HYPOTHESIS_PROFILE": "mutants"}
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True)
        return done.returncode == 0


def main() -> None:
    """Try every mutant; exit with an error if one survives."""
    survivors = [mutant for mutant in track(CORE, "mutants") if survives(mutant)]
    for mutant in survivors:
        print(f"survived: {mutant.file}: {mutant.right!r} -> {mutant.wrong!r}")
    print(f"{len(CORE) - len(survivors)} of {len(CORE)} mutants were noticed")
    raise SystemExit(bool(survivors))


if __name__ == "__main__":
    main()
