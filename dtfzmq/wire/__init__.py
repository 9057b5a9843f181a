"""What is said: messages, how they are coded, and the links between tasks that carry them.

The link state machine (hello, numbers, transfer, link, endpoint) knows no sockets, clocks or threads: it is handed a
loop and a transport and answers by calling back, always on the loop's baton. zmqnet and inproc are the transports.
Imports `base` alone; `zmq` is imported in this folder alone.
"""
