"""MAI in an LCEL chain: examples/lcel_chain.py [PICTURE [COLOUR...]], while `mai-graph serve` runs."""

import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableLambda

from mai_graph import Settings, create_mai

PICTURE = str(Path(__file__).with_name("shapes.png"))


def main(picture: str = PICTURE, *colours: str) -> None:
    """Ask one question for each colour, all at the same time, and print the answers."""
    servers = Settings()

    def ask(colour: str) -> dict[str, Any]:
        return {"question": f"How many {colour} shapes are there?", "images": [picture]}

    chain = RunnableLambda(ask) | create_mai(servers.small, servers.large) | itemgetter("answer")
    wanted = list(colours) or ["green", "purple", "red"]
    for colour, answer in zip(wanted, chain.batch(wanted), strict=True):
        print(f"{colour}: {answer}")


if __name__ == "__main__":
    main(*sys.argv[1:])
