"""Ask about a picture: examples/plain_invoke.py [PICTURE [QUESTION]], while `mai-graph serve` runs."""

import sys
from pathlib import Path

from mai_graph import Settings, create_mai

PICTURE = str(Path(__file__).with_name("shapes.png"))


def main(picture: str = PICTURE, question: str = "How many green shapes are there?") -> None:
    """Print the answer, how it came about, and what each model call took."""
    servers = Settings()
    mai = create_mai(servers.small, servers.large)
    result = mai.invoke({"question": question, "images": [picture]})
    print(f"{question} {result['answer']} (route: {result['route']})")
    for step in result["steps"]:
        print(f"  {step['node']}: {step['completion_tokens']} tokens, {step['duration'] * 1000:.0f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
