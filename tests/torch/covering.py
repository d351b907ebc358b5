"""Pairwise covering arrays: few cases in which every two values of every two options meet.

An option is a list of values; a value is a flat dict, its share of a case. `fits` refuses pairs of values that cannot meet. Greedy, after
AETG (Cohen et al. 1997): a case starts with a pair that is still to be covered, takes option after option the value that covers the most
with those before it, and is of several tries the one that covers the most."""
import itertools
import random

TRIES = 12


def cover(options, fits=lambda case: True, seed=1):
    r = random.Random(seed)
    values = [value for option in options for value in option]   # known by their place here, sets of them as bits
    places = iter(range(len(values)))
    option = [[next(places) for _ in values] for values in options]
    pairs = [(a, b) for one, other in itertools.combinations(option, 2) for a in one for b in other]
    wanted = [(a, b) for a, b in pairs if fits(values[a] | values[b])]
    beside, left = [0] * len(values), [0] * len(values)          # may stand beside it; not yet covered with it
    for a, b in wanted:
        beside[a] |= 1 << b
        beside[b] |= 1 << a
    left[:] = beside

    def complete(picks):
        case = sum(1 << v for v in picks)
        for choices in r.sample(option, len(option)):
            if not any(v in picks for v in choices):
                able = [v for v in choices if case & ~beside[v] == 0]
                if not able:
                    return None
                picks = picks + (max(able, key=lambda v: ((left[v] & case).bit_count(), r.random())),)
                case |= 1 << picks[-1]
        return picks

    def gain(picks):
        case = sum(1 << v for v in picks)
        return sum((left[v] & case).bit_count() for v in picks)

    cases = []
    for pair in wanted:
        if left[pair[0]] >> pair[1] & 1:
            found = [picks for picks in (complete(pair) for _ in range(TRIES)) if picks]
            assert found, f"no case has {values[pair[0]]} and {values[pair[1]]}"
            cases.append(sorted(max(found, key=gain)))
            for a, b in itertools.permutations(cases[-1], 2):
                left[a] &= ~(1 << b)
    covered = {pair for case in cases for pair in itertools.combinations(case, 2)}
    assert covered == set(wanted) and all(len(case) == len(options) for case in cases)
    return [{key: item for v in case for key, item in values[v].items()} for case in cases]
