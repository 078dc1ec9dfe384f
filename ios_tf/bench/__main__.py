"""python -m ios_tf.bench: the experiments, without TensorFlow, and the zoo."""

import sys

if sys.argv[1:2] == ["zoo"]:
    from ios_tf.bench.zoo.command import main

    sys.exit(main(sys.argv[2:]))

from ios_tf.bench.experiments.command import main

sys.exit(main())
