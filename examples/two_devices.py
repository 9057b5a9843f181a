"""Two CPU devices in one task: each multiplies, the first adds up.

    python examples/two_devices.py
"""

import numpy as np

import dtfzmq as tf


def main() -> None:
    config = tf.ConfigProto(device_count={"CPU": 2})
    server = tf.train.Server({"local": ["localhost:0"]}, job_name="local", task_index=0, config=config)
    matrix = np.arange(16, dtype=np.float32).reshape(4, 4)
    products = []
    for index in range(2):
        with tf.device(f"/job:local/task:0/cpu:{index}"):
            products.append(tf.matmul(tf.constant(matrix), tf.constant(matrix + index)))
    with tf.device("/job:local/task:0/cpu:0"):
        total = tf.reduce_sum(products[0] + products[1])
    with tf.Session(server.target) as session:
        print("devices:", *[device.name for device in session.list_devices()])
        print("total:", session.run(total), "by numpy:", (matrix @ matrix + matrix @ (matrix + 1)).sum())
    server.stop()


if __name__ == "__main__":
    main()
