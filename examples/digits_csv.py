"""Write scikit-learn's handwritten digits as CSV for examples/digits.cpp: 64 pixels (0 to 16) and a label on each line.

python examples/digits_csv.py out/digits.csv
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


def main() -> int:
    """Write the file that is named on the command line."""
    if len(sys.argv) != 2:
        print("usage: python digits_csv.py FILE", file=sys.stderr)
        return 2
    path = Path(sys.argv[1])
    images, labels = load_digits(return_X_y=True)
    # As in digits.py, with the digits to test on at the end.
    order = np.roll(np.random.default_rng(7).permutation(len(labels)), -(len(labels) // 5))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, np.column_stack([images, labels])[order], fmt="%d", delimiter=",")
    return 0


if __name__ == "__main__":
    sys.exit(main())
