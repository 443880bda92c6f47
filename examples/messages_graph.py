"""MAI as a node of a chat graph: examples/messages_graph.py [PICTURE [QUESTION]], while `mai-graph serve` runs."""

import base64
import sys
from pathlib import Path

from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from mai_graph import Settings, create_mai

PICTURE = str(Path(__file__).with_name("shapes.png"))


def main(picture: str = PICTURE, question: str = "How many green shapes are there?") -> None:
    """Print the conversation; the last human message holds the picture and the question."""
    servers = Settings()
    chat = (
        StateGraph(MessagesState)
        .add_node("mai", create_mai(servers.small, servers.large))
        .add_edge(START, "mai")
        .add_edge("mai", END)
        .compile()
    )
    image = {
        "type": "image",
        "base64": base64.b64encode(Path(picture).read_bytes()).decode(),
        "mime_type": "image/png",
    }
    asked = HumanMessage([image, {"type": "text", "text": question}])
    for message in chat.invoke({"messages": [asked]})["messages"]:
        print(f"{message.type}: {message.text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
