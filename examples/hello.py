"""Hello on a server of this process: the smallest distributed program.

    python examples/hello.py
"""

import dtfzmq as tf


def main() -> None:
    server = tf.train.Server.create_local_server()
    hello = tf.constant("Hello, distributed dtfzmq!")
    with tf.Session(server.target) as session:
        print(session.run(hello).decode())
    server.stop()


if __name__ == "__main__":
    main()
