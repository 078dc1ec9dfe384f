"""The engine beside its peers: python -m ios_tf.bench.peers --device=gpu NETWORK...

Short for `python -m ios_tf.bench frameworks`; needs neither TensorFlow nor a network
connection where the NETWORKs are files that `ios_tf export-blocks` wrote.
"""

import sys

from ios_tf.bench.experiments.command import main

if __name__ == "__main__":
    sys.exit(main(["frameworks", *sys.argv[1:]]))
