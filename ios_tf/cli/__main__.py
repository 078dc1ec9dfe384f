"""`python -m ios_tf.cli`."""

import sys

from ios_tf.cli.main import main

sys.exit(main())
