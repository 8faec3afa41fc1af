"""LangGraph's SqliteStore as it is used in Python: one batch that gets, or puts, the memories.

The first argument is the store's file. The first line of the input is a JSON object of texts by id; then each line is
`get` or `put`, and the answer is how many nanoseconds the batch took in this process.
"""

import json
import sys
import time

from langgraph.store.base import GetOp, PutOp
from langgraph.store.sqlite import SqliteStore

NAMESPACE = ("memories", "planner")


def main() -> None:
    texts = json.loads(sys.stdin.readline())
    with SqliteStore.from_conn_string(sys.argv[1]) as store:
        store.setup()
        puts = [PutOp(NAMESPACE, key, {"text": text}) for key, text in texts.items()]
        gets = [GetOp(NAMESPACE, key) for key in texts]
        store.batch(puts)
        print("ready", flush=True)
        for line in sys.stdin:
            ops = {"get": gets, "put": puts}[line.strip()]
            start = time.perf_counter_ns()
            answers = store.batch(ops)
            took = time.perf_counter_ns() - start
            if ops is gets and [item.value["text"] for item in answers] != list(texts.values()):
                raise SystemExit("LangGraph answered with other texts")
            print(took, flush=True)


main()
