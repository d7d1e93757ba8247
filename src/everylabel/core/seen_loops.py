"""Compiled twins of `seen` and of `updates.span`, where a search is many small steps; the names are theirs.

k classes first, n points: each inner loop runs over points, or over those of R_c, and vectorises.
Imported on first use only: numba takes its time to start.
"""

from typing import Any

import numpy as np
from numba import njit

MAX_STEPS, MAX_CUTS = 30, 20
STEEP = 0.9  # of `dual`

# no `nnan` and `ninf`: a search that overflows is to be noticed
_how: Any = {"nogil": True, "fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy"}
_fast = njit(cache=True, **_how)
# parts are written into each loop: called, they leave it other bits in the process that compiled it than in
# those that find it on the disk, and a replay would not give the state that a server was in
_part = njit(inline="always", **_how)


@_fast
def own(gram, extra, share, least, at, core):  # type: ignore[no-untyped-def]
    """Write R_c and X_c = s (I + s M s)^-1 s, s^2 the extra curvature; `seen.own`."""
    for c in range(len(at)):
        size, there, x_c = 0, at[c], core[c]
        for x in range(len(gram)):
            if share[c, x] > least[c]:
                there[size] = x + 1
                size += 1
        root, system = np.empty(size, gram.dtype), np.empty((size, size), gram.dtype)
        for i in range(size):
            root[i] = np.sqrt(extra[c, there[i] - 1])
        for i in range(size):
            row = gram[there[i] - 1]
            for j in range(size):
                system[i, j] = root[i] * row[there[j] - 1] * root[j]
            system[i, i] += 1.0
        _invert(system)
        for i in range(size):
            for j in range(size):
                x_c[i, j] = root[i] * system[i, j] * root[j]


@_part
def _invert(matrix):  # type: ignore[no-untyped-def]
    """Invert a positive definite matrix in place, by sweeping a pivot p at a time.

    With u its row and d = u_p, A becomes A - u u'/d, row and column p u/d, and -1/d at p: -A^-1 in the end.
    """
    u = np.empty(len(matrix), matrix.dtype)
    for p in range(len(u)):
        for j in range(len(u)):
            u[j] = matrix[p, j]
        for i in range(len(u)):
            factor = u[i] / u[p]
            for j in range(len(u)):
                matrix[i, j] -= factor * u[j]
        for j in range(len(u)):
            matrix[p, j] = u[j] / u[p]
            matrix[j, p] = matrix[p, j]
        matrix[p, p] = -1 / u[p]
    for i in range(len(u)):
        for j in range(len(u)):
            matrix[i, j] = -matrix[i, j]


@_part
def _apply_own(gram, there, x_c, z, ahead, near):  # type: ignore[no-untyped-def]
    """Turn a class's e and M e, in place, into r and M r: of M only the rows R_c are asked for again."""
    size = _size(there)
    for i in range(size):
        near[i] = ahead[there[i] - 1]
    for i in range(size):
        value = _dot(x_c[i], near, size)
        z[there[i] - 1] -= value
        _add(ahead, gram[there[i] - 1], -value)


@_part
def _dot(row, other, size):  # type: ignore[no-untyped-def]
    total = row[0] * other[0]
    for i in range(1, size):
        total += row[i] * other[i]
    return total


@_part
def _size(there):  # type: ignore[no-untyped-def]
    size = 0
    while size < len(there) and there[size] > 0:
        size += 1
    return size


@_part
def _add(to, row, times):  # type: ignore[no-untyped-def]
    for x in range(len(to)):
        to[x] += times * row[x]


@_fast
def line(gram, shared, at, core, weights, probs, error, z, ahead, last):  # type: ignore[no-untyped-def]
    """Turn e = -error and M e, in place, into a line's T and K T; `span.find_line`.

    last : (E, T, K T, E . M_c E) of the last line; 0 at the end if there is none
    Return E . M_c E, J's slope along the line, and its curvature.
    """
    last_error, last_z, last_ahead, last_energy = last
    energy, kept, means = _answer(gram, shared, at, core, error, last_error, z, ahead)
    share = np.zeros(1, z.dtype)  # in the precision of the others
    if last_energy > 0 and kept > energy:
        share[0] = (kept - energy) / last_energy
    slope, curvature = _conjugate(weights, probs, error, z, ahead, means, last_z, last_ahead, share[0])
    return -energy, slope, curvature


@_part
def _answer(gram, shared, at, core, error, last_error, z, ahead):  # type: ignore[no-untyped-def]
    """Turn e = -error and M e, in place, into z and K z.

    Return error . Kz, last_error . Kz and the means (2, n) of z and of K z over classes.
    """
    energy, kept, zero = 0.0, 0.0, np.zeros(1, z.dtype)[0]
    near, means = np.empty(at.shape[1], z.dtype), np.zeros((2, z.shape[1]), z.dtype)
    for c in range(len(z)):
        to, seen, now, last = z[c], ahead[c], error[c], last_error[c]
        _apply_own(gram, at[c], core[c], to, seen, near)
        one, two = zero, zero
        for x in range(len(to)):
            to[x] -= shared[x] * seen[x]
            one += now[x] * seen[x]
            two += last[x] * seen[x]
        _add(means[0], to, zero + 1)
        _add(means[1], seen, zero + 1)
        energy, kept = energy + one, kept + two
    means /= len(z)
    return energy, kept, means


@_part
def _conjugate(weights, probs, error, z, ahead, means, last_z, last_ahead, share):  # type: ignore[no-untyped-def]
    """Level z and K z and add a share of the last line, in place; return J's slope and curvature along it."""
    slope, curvature, zero = 0.0, 0.0, np.zeros(1, z.dtype)[0]
    mean = np.zeros(len(weights), z.dtype)
    for c in range(len(z)):
        to, seen, now, p, one = z[c], ahead[c], error[c], probs[c], zero
        for x in range(len(to)):
            to[x] -= means[0, x]
            seen[x] -= means[1, x]
        if share != 0:
            _add(to, last_z[c], share)
            _add(seen, last_ahead[c], share)
        for x in range(len(to)):
            one += now[x] * seen[x]
            mean[x] += p[x] * seen[x]
        slope += one
    for c in range(len(z)):
        to, seen, p, one = z[c], ahead[c], probs[c], zero
        for x in range(len(to)):
            one += seen[x] * (weights[x] * p[x] * (seen[x] - mean[x]) + to[x])  # KT . (W KT + T)
        curvature += one
    return slope, curvature


@_fast
def shifted(logits, ahead, length, raised):  # type: ignore[no-untyped-def]
    """Return logits + length ahead; write the same less the largest of each point."""
    moved, top = np.empty_like(logits), np.full(logits.shape[1], -np.inf, logits.dtype)
    for c in range(len(logits)):
        f, seen, to = logits[c], ahead[c], moved[c]
        for x in range(len(f)):
            to[x] = f[x] + length * seen[x]
            top[x] = max(top[x], to[x])
    for c in range(len(logits)):
        f, to = moved[c], raised[c]
        for x in range(len(f)):
            to[x] = f[x] - top[x]
    return moved


@_fast
def ended(weights, pull, z, ahead, length, grown):  # type: ignore[no-untyped-def]
    """Return R and E at a line's end and J's slope there; grown, e to the logits, becomes P."""
    total = np.zeros(len(weights), pull.dtype)
    for c in range(len(grown)):
        _add(total, grown[c], length * 0 + 1)
    moved, error = np.empty_like(pull), np.empty_like(pull)
    slope, zero = 0.0, np.zeros(1, pull.dtype)[0]
    for c in range(len(pull)):
        p, held, to, left, seen, step, one = grown[c], pull[c], moved[c], error[c], ahead[c], z[c], zero
        for x in range(len(p)):
            p[x] /= total[x]
            to[x] = held[x] - length * step[x]
            left[x] = weights[x] * p[x] - to[x]
            one += left[x] * seen[x]
        slope += one
    return moved, error, slope


@_fast
def held(label_sums, pulled, prior):  # type: ignore[no-untyped-def]
    """Return (L - H'R') / prior_precision."""
    mean, share = np.empty_like(label_sums), 1.0 / prior
    for i in range(len(mean)):
        to, sums, by = mean[i], label_sums[i], pulled[i]
        for c in range(len(to)):
            to[c] = share * (sums[c] - by[c])
    return mean


@_fast
def guess(gram, shared, at, core, weights, targets, pull, logits, small):  # type: ignore[no-untyped-def]
    """Move the last points, in turn and in place, to their own exact answers, and let them join R_c.

    small : (NEGLIGIBLE and LEAST of `seen`, OWN of `span`, TOLERANCE of `dual`)
    """
    negligible, least, least_own, tolerance = small
    k, n = logits.shape
    b, before = targets.shape[1], _mean(logits)
    through, row = np.zeros((k, at.shape[1] + 1), gram.dtype), np.empty(n, gram.dtype)
    variance, a = np.empty(k), np.empty(k)
    for x in range(n - b, n):
        own, w = gram[x, x], float(weights[x])
        for c in range(k):
            variance[c] = max(_variance(gram[x], at[c], core[c], x, through[c], row), least * own)
        _dual(logits[:, x].astype(np.float64), targets[:, x - n + b], variance, w, tolerance, a)
        for c in range(k):
            size = _size(at[c]) if abs(a[c]) > least_own else 0
            _move(gram, shared, at[c, :size], through[c], x, own * 0 + a[c], pull[c], logits[c], row)
        p = _softmax(logits[:, x].astype(np.float64))
        for c in range(k):
            q = w * p[c] * (1.0 - p[c])
            if q * own > negligible:
                _join(at[c], core[c], through[c], x, 1.0 / q + variance[c])
    after, held = _mean(logits), _mean(pull)
    for c in range(k):  # sum_c T = 0, sum_c R = w
        for x in range(n):
            logits[c, x] -= after[x] - before[x]
            pull[c, x] -= held[x] - weights[x] / k


@_part
def _mean(matrix):  # type: ignore[no-untyped-def]
    total = np.zeros(matrix.shape[1], matrix.dtype)
    for c in range(len(matrix)):
        for x in range(len(total)):
            total[x] += matrix[c, x]
    for x in range(len(total)):
        total[x] /= len(matrix)
    return total


@_part
def _variance(row, there, x_c, x, through, near):  # type: ignore[no-untyped-def]
    """Return M_c of a point; write X_c M[R_c, x]."""
    size = _size(there)
    for i in range(size):
        near[i] = row[there[i] - 1]
    for i in range(size):
        through[i] = _dot(x_c[i], near, size)
    return row[x] - _dot(through, near, size) if size else row[x]


@_part
def _move(gram, shared, there, through, x, a, pull, logits, ahead):  # type: ignore[no-untyped-def]
    """Let a point pull a class by a more: R -= z, logits += K z with z = r - b o M r."""
    row = gram[x]
    for y in range(len(row)):
        ahead[y] = a * row[y]
    pull[x] -= a
    for i in range(len(there)):
        pull[there[i] - 1] += a * through[i]
        _add(ahead, gram[there[i] - 1], -a * through[i])
    for y in range(len(ahead)):
        logits[y] += ahead[y]
        pull[y] += shared[y] * ahead[y]


@_part
def _join(there, x_c, through, x, scale):  # type: ignore[no-untyped-def]
    """Add v v' / s to X_c, v = (X_c M[R_c, x], -1); `Seen.join`."""
    size = _size(there)
    there[size], through[size] = x + 1, -1
    for i in range(size + 1):
        for j in range(size + 1):
            x_c[i, j] += through[i] * through[j] / scale


@_part
def _dual(f, target, s, w, tolerance, a):  # type: ignore[no-untyped-def]
    """Write the zero of a - w (e_y - softmax(f + s a)), as `dual` has it for many labels at once."""
    a[:] = 0.0
    p = _softmax(f)
    gradient = a - w * (target - p)
    for _ in range(MAX_STEPS):
        if np.max(np.abs(gradient)) <= tolerance * w:
            break
        spread = p * s
        u, r = gradient / (1.0 + w * spread), w * p / (1.0 + w * spread)
        room = max(1.0 - np.sum(spread * r), 1e-12)
        step = -(u + r * (np.sum(spread * u) / room))
        seen = s * step
        steepest, before = -STEEP * np.sum(gradient * seen), a.copy()
        for _ in range(MAX_CUTS):
            a[:] = before + step
            p = _softmax(f + s * a)
            gradient = a - w * (target - p)
            if np.sum(gradient * seen) <= steepest:
                break
            step *= 0.5


@_part
def _softmax(f):  # type: ignore[no-untyped-def]
    grown = np.exp(f - np.max(f))
    return grown / np.sum(grown)
