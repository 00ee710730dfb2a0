"""RocketMQ's remoting protocol, as much of it as reading queues by offset takes.

The public clients of Python cannot name an offset to read from: rocketmq-python-client speaks to
RocketMQ's proxy, which hands out what a group has not acknowledged yet. So this is the protocol of
the Java client itself.
"""
