"""The state machine from question to answer, with models that say what the test wrote; real ones: tests/servers."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from mai_graph import ConfigError, InputError, UnavailableError, create_mai
from tests.scripted import PIXEL, Scripted

QUESTION = {"question": "How many circles are there?", "images": [PIXEL]}
REASONING = "Row 1: red circle, blue circle, red circle.\nAnswer: 3"


def small(**says: Any) -> Scripted:
    return Scripted(says={"simple": "2", "think": REASONING, "answer": "3"} | says)


def large(**says: Any) -> Scripted:
    return Scripted(says={"simple": "3", "transfer": "3"} | says)


def nodes(result: dict[str, Any]) -> list[str]:
    return [step["node"] for step in result["steps"]]


SHORT = ["small_agent_short", "large_agent_short"]
REASONED = ["small_agent_think", "small_agent_answer"]


def test_equal_short_answers_end_the_run() -> None:
    result = create_mai(small(simple="3."), large()).invoke(QUESTION)
    assert (result["answer"], result["route"], result["degraded"]) == ("3", "agreement", None)
    assert sorted(nodes(result)) == sorted(SHORT)
    assert result["verdict"] == {"agree": True, "metric": "number", "guessed": True, "score": 1.0}


def test_differing_short_answers_wake_the_small_model_and_its_reasoned_answer_may_agree() -> None:
    mind = small()
    result = create_mai(mind, large()).invoke(QUESTION)
    assert (result["answer"], result["route"], result["degraded"]) == ("3", "reasoned_agreement", None)
    assert nodes(result)[2:] == REASONED
    assert result["reasoning"]["text"] == REASONING
    assert [message.type for message in mind.heard[-1]] == ["human", "ai", "human"]
    assert mind.heard[-1][0] == mind.heard[-2][0], "the second stage continues the reasoning conversation"


def test_lasting_disagreement_hands_the_reasoning_to_the_large_model() -> None:
    decider = large(simple="5", transfer="4")
    result = create_mai(small(), decider).invoke(QUESTION)
    assert (result["answer"], result["route"], result["degraded"]) == ("4", "transfer", None)
    assert nodes(result)[2:] == [*REASONED, "large_agent_answer"]
    assert REASONING in str(decider.heard[-1][-1].text)


def test_one_stage_reads_the_answer_from_the_reasoning_and_saves_a_call() -> None:
    result = create_mai(small(), large(), two_stage=False).invoke(QUESTION)
    assert (result["answer"], result["route"]) == ("3", "reasoned_agreement")
    assert nodes(result)[2:] == ["small_agent_think"]


def test_a_setting_can_be_changed_for_one_run() -> None:
    graph = create_mai(small(), large())
    assert nodes(graph.invoke(QUESTION, context={"two_stage": False}))[2:] == ["small_agent_think"]
    assert nodes(graph.invoke(QUESTION))[2:] == REASONED


@pytest.mark.parametrize("unread", ["", " \n", "...", "Let me see.\nThere are some."])
def test_an_empty_or_unreadable_short_answer_counts_as_disagreement(unread: str) -> None:
    result = create_mai(small(simple=unread), large(simple=unread)).invoke(QUESTION)
    assert (result["answer"], result["route"]) == ("3", "transfer")


def test_a_short_answer_cut_off_by_its_token_limit_counts_as_disagreement() -> None:
    cut = AIMessage("3", response_metadata={"finish_reason": "length"})
    result = create_mai(small(simple="3"), large(simple=cut)).invoke(QUESTION)
    assert result["route"] == "transfer"
    assert result["large_short"]["answer"] is None


def test_images_question_and_options_come_first_in_every_prompt() -> None:
    mind, decider = small(simple="A", answer="B"), large(simple="C", transfer="B")
    asked = QUESTION | {"options": ["2", "3", "4"]}
    assert create_mai(mind, decider).invoke(asked)["answer"] == "B"
    for messages in mind.heard + decider.heard:
        picture, text = messages[0].content
        assert picture["type"] == "image"
        assert text["text"].startswith("How many circles are there?\nA. 2\nB. 3\nC. 4\n")


@pytest.mark.parametrize(
    ("reasoning", "kept"),
    [
        (
            AIMessage("Answer: 3", additional_kwargs={"reasoning_content": "I count three."}),
            "I count three.\nAnswer: 3",
        ),
        (AIMessage("<think>I count three.</think>\nAnswer: 3"), "I count three.\nAnswer: 3"),
    ],
)
def test_reasoning_that_a_model_sets_apart_is_used_as_r(reasoning: AIMessage, kept: str) -> None:
    result = create_mai(small(think=reasoning), large()).invoke(QUESTION)
    assert result["reasoning"]["text"] == kept
    assert result["reasoning"]["answer"] == "3"


def test_reasoning_cut_off_by_its_token_limit_is_used_and_marked() -> None:
    cut = AIMessage("Row 1: red circle, blue", response_metadata={"finish_reason": "length"})
    mind, decider = small(think=cut), large(simple="5")
    result = create_mai(mind, decider).invoke(QUESTION)
    assert "cut off by its token limit" in result["degraded"]
    assert mind.heard[-1][1].content == "Row 1: red circle, blue [cut off]"
    assert "red circle, blue [cut off]" in str(decider.heard[-1][-1].text)


BROKEN = ConnectionError("connection refused")


@pytest.mark.parametrize(
    ("small_says", "large_says", "answer", "route", "said"),
    [
        ({"simple": BROKEN}, {}, "3", "without_small", "the small model's short answer failed: Scripted"),
        ({"think": BROKEN}, {}, "3", "without_small", "the small model's reasoning failed"),
        ({"think": ""}, {}, "3", "without_small", "the small model's reasoning was blank"),
        ({"answer": BROKEN}, {}, "3", "reasoned_agreement", "answer after reasoning failed"),
        ({}, {"simple": BROKEN}, "3", "without_large", "the large model's short answer failed"),
        ({}, {"simple": "5", "transfer": BROKEN}, "3", "without_large", "after reading the reasoning failed"),
        ({}, {"simple": "5", "transfer": ""}, "3", "without_large", "could not be read"),
        ({"think": BROKEN}, {"simple": BROKEN}, "2", "without_large", "the small model's reasoning failed"),
    ],
)
def test_a_failing_model_degrades_the_answer_and_the_result_says_so(
    small_says: dict[str, Any],
    large_says: dict[str, Any],
    answer: str,
    route: str,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "mai_graph"):
        result = create_mai(small(**small_says), large(**large_says)).invoke(QUESTION | {"question_id": "q-17"})
    assert (result["answer"], result["route"]) == (answer, route)
    assert said in result["degraded"]
    assert any("q-17" in record.message and said in record.message for record in caplog.records)


def test_both_models_failing_is_one_typed_error() -> None:
    with pytest.raises(UnavailableError, match=r"small model's short answer failed.*large model's short answer failed"):
        create_mai(small(simple=BROKEN), large(simple=BROKEN)).invoke(QUESTION)


def test_reasoning_too_long_for_the_large_model_is_shortened_from_its_middle_until_it_fits() -> None:
    words = " ".join(f"word{i}" for i in range(400))
    overflow = ContextOverflowError("too long")
    decider = large(simple="5", transfer=[overflow, overflow, "4"])
    result = create_mai(small(think=words, answer="3"), decider).invoke(QUESTION)
    assert (result["answer"], result["route"]) == ("4", "transfer")
    assert nodes(result)[-3:] == ["large_agent_answer"] * 3
    assert re.search(rf"shortened from its middle to \d+ of {len(words)} characters", result["degraded"])
    text = str(decider.heard[-1][-1].text)
    assert "word0 word1" in text
    assert "[...]" in text
    assert "word399" in text
    assert len(text) < len(words) // 3


def test_a_picture_data_url_never_reaches_errors_or_logs(caplog: pytest.LogCaptureFixture) -> None:
    echo = ValueError(f"bad input: {PIXEL + 'A' * 5000}")
    with caplog.at_level(logging.DEBUG, "mai_graph"):
        result = create_mai(small(simple=echo), large()).invoke(QUESTION)
    everything = json.dumps(result["steps"]) + result["degraded"] + caplog.text
    assert "AAAAAAAA" not in everything
    assert len(result["degraded"]) < 600


async def test_ainvoke_takes_the_same_routes() -> None:
    result = await create_mai(small(), large(simple="5", transfer="4")).ainvoke(QUESTION)
    assert (result["answer"], result["route"]) == ("4", "transfer")


def test_updates_are_streamed_node_by_node() -> None:
    updates = create_mai(small(), large()).stream(QUESTION, stream_mode="updates")
    names = [name for update in updates for name in update]
    assert names[2:] == ["verifier_short", *REASONED, "verifier_reasoned"]


async def test_tokens_are_streamed_with_the_node_that_wrote_them() -> None:
    written = [
        (metadata["langgraph_node"], chunk.content)
        async for chunk, metadata in create_mai(small(), large()).astream(QUESTION, stream_mode="messages")
    ]
    words = [word for node, word in written if node == "small_agent_think" and word]
    assert words == REASONING.split(" ")


@pytest.mark.parametrize("checkpointer", ["memory", "sqlite"])
def test_a_thread_keeps_its_state_and_a_new_question_starts_afresh(checkpointer: str, tmp_path: Path) -> None:
    def run(saver: Any) -> None:
        graph = create_mai(
            small(simple=["2", "3"], think=[REASONING]), large(simple=["5", "3"], transfer=["4"]), checkpointer=saver
        )
        thread: Any = {"configurable": {"thread_id": "1"}}
        first = graph.invoke(QUESTION | {"options": None}, thread)
        assert first["route"] == "transfer"
        second = graph.invoke({"question": "And now?", "images": [PIXEL]}, thread)
        assert second["route"] == "agreement"
        assert second["reasoning"] is second["transferred"] is second["large_answer"] is None
        assert sorted(nodes(second)) == sorted(SHORT)
        assert second["question_id"] != first["question_id"]
        state = graph.get_state(thread).values
        assert json.dumps({key: value for key, value in state.items() if key != "messages"}).count(PIXEL) == 1

    if checkpointer == "memory":
        run(InMemorySaver())
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "runs.sqlite")) as saver:
            run(saver)


IMAGE_BLOCK = {"type": "image", "base64": PIXEL.split(",")[1], "mime_type": "image/png"}


def conversation() -> list[Any]:
    text = {"type": "text", "text": "How many circles are there?"}
    return [HumanMessage("Hello"), AIMessage("Hello!"), HumanMessage([IMAGE_BLOCK, text])]


def test_messages_may_ask_the_question_and_the_answer_is_a_message() -> None:
    mind = small()
    result = create_mai(mind, large()).invoke({"messages": conversation()})
    assert [message.content for message in result["messages"]][-1] == result["answer"] == "3"
    assert len(result["messages"]) == 4
    assert mind.heard[0][0].content[0] == IMAGE_BLOCK


def test_it_is_a_node_of_a_messages_graph_with_keys_of_its_own() -> None:
    class Chat(MessagesState):
        mood: str

    parent = StateGraph(Chat).add_node("mai", create_mai(small(), large())).add_edge(START, "mai").add_edge("mai", END)
    chat = parent.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    result = chat.invoke({"messages": conversation(), "mood": "fine"}, thread)  # type: ignore[arg-type]
    assert [message.type for message in result["messages"]] == ["human", "ai", "human", "ai"]
    assert result["messages"][-1].content == "3"
    assert result["mood"] == "fine"
    again = chat.invoke({"messages": conversation()[-1:]}, thread)  # type: ignore[arg-type]
    assert len(again["messages"]) == 6


async def test_it_is_a_runnable_in_a_chain() -> None:
    chain = RunnableLambda(lambda asked: QUESTION | {"question": asked}) | create_mai(small(), large())
    chain |= RunnableLambda(lambda result: result["answer"])
    assert chain.invoke("How many circles?") == "3"
    assert await chain.ainvoke("How many circles?") == "3"
    assert chain.batch(["How many?", "How many?"]) == ["3", "3"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "question"),
        ({"question": None, "images": [PIXEL]}, "question"),
        ({"question": " \n", "images": [PIXEL]}, "question"),
        ({"question": 7, "images": [PIXEL]}, "question"),
        ({"question": "Q?"}, "images"),
        ({"question": "Q?", "images": []}, "images"),
        ({"question": "Q?", "images": PIXEL}, "images"),
        ({"question": "Q?", "images": [PIXEL] * 30}, "images"),
        ({"question": "Q?", "images": ["nowhere.png"]}, "images[0]"),
        ({"question": "Q?", "image": PIXEL}, "image"),
        ({"question": "Q?", "images": [PIXEL], "options": ["one"]}, "options"),
        ({"question": "Q?", "images": [PIXEL], "options": "AB"}, "options"),
        ({"question": "Q?", "images": [PIXEL], "options": ["red", "Red "]}, "options[1]"),
        ({"question": "Q?", "images": [PIXEL], "options": ["red", ""]}, "options[1]"),
        ({"question": "Q?", "images": [PIXEL], "options": [str(i) for i in range(27)]}, "options"),
        ({"question": "Q?", "images": [PIXEL], "metric": "bleu"}, "metric"),
        ({"question": "Q?", "images": [PIXEL], "metric": "choice"}, "metric"),
        ({"question": "Q?", "images": [PIXEL], "question_id": 7}, "question_id"),
        ({"question": "Q?", "images": [PIXEL], "messages": conversation()}, "messages"),
        ({"messages": []}, "question"),
        ({"messages": conversation()[:2]}, "messages[1]"),
        ({"messages": [HumanMessage("No picture?")]}, "messages"),
        ({"messages": [HumanMessage([IMAGE_BLOCK])]}, "messages[0]"),
        ({"messages": [HumanMessage([IMAGE_BLOCK] * 30)]}, "messages[0]"),
        ({"messages": [HumanMessage([{"type": "audio", "base64": ""}])]}, "messages[0].content[0]"),
        ({"messages": [{"role": "wizard", "content": "Q?"}]}, "messages"),
        ("How many?", "input"),
    ],
)
def test_bad_input_is_one_error_naming_the_field_before_any_model_is_called(given: Any, field: str) -> None:
    mind, decider = small(), large()
    with pytest.raises(InputError) as error:
        create_mai(mind, decider).invoke(given)
    assert error.value.field == field
    assert error.value.remedy
    assert not mind.heard
    assert not decider.heard


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"two_stages": True}, "two_stages"),
        ({"metric": "bleu"}, "metric"),
        ({"anls_threshold": 0}, "anls_threshold"),
        ({"short_max_tokens": 0}, "short_max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"prompts": "nowhere"}, "prompts"),
        ({"max_images": 0}, "max_images"),
    ],
)
def test_a_bad_setting_is_one_error_when_the_graph_is_made(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as error:
        create_mai(small(), large(), **options)
    assert error.value.field == field


@pytest.mark.parametrize("model", ["http://127.0.0.1:8101/v1", ("not a url", "small"), ("http://x/v1", ""), 7, None])
def test_a_model_that_is_none_is_refused(model: Any) -> None:
    with pytest.raises(ConfigError, match="small"):
        create_mai(model, large())


@pytest.mark.parametrize(
    ("context", "field"),
    [
        ({"two_stages": True}, "two_stages"),
        ({"temperature": 9}, "temperature"),
        ({"local_files": True}, "local_files"),
        ({"allow_private_urls": True}, "allow_private_urls"),
        ({"prompts": "/etc"}, "prompts"),
    ],
)
def test_one_run_may_not_set_what_does_not_exist_or_widen_what_may_be_opened(context: Any, field: str) -> None:
    mind = small()
    with pytest.raises(ConfigError) as error:
        create_mai(mind, large(), local_files=False).invoke(QUESTION, context=context)
    assert error.value.field == field
    assert not mind.heard


def test_without_local_files_a_path_is_refused() -> None:
    graph = create_mai(small(), large(), local_files=False)
    for path in ("picture.png", "/etc/passwd", "file:///etc/passwd", Path("picture.png")):
        with pytest.raises(InputError, match=r"images\[0\].*local_files"):
            graph.invoke({"question": "Q?", "images": [path]})


def test_the_drawing_reads_like_the_method() -> None:
    # LangGraph draws one edge between two nodes, with the label that comes first in the alphabet.
    edges = {(edge.source, edge.target): edge.data for edge in create_mai(small(), large()).get_graph().edges}
    assert edges == {
        ("__start__", "small_agent_short"): None,
        ("__start__", "large_agent_short"): None,
        ("small_agent_short", "verifier_short"): None,
        ("large_agent_short", "verifier_short"): None,
        ("verifier_short", "__end__"): "agreement",
        ("verifier_short", "small_agent_think"): "differ",
        ("small_agent_think", "small_agent_answer"): "two_stage",
        ("small_agent_think", "verifier_reasoned"): "one_stage",
        ("small_agent_answer", "verifier_reasoned"): None,
        ("verifier_reasoned", "__end__"): "reasoned_agreement",
        ("verifier_reasoned", "transfer"): "differ",
        ("transfer", "large_agent_answer"): None,
        ("large_agent_answer", "__end__"): "transfer",
        ("large_agent_answer", "transfer"): "too_long",
    }


def test_forms_for_input_and_settings_have_titles_descriptions_and_ranges() -> None:
    graph = create_mai(small(), large())
    asked = graph.get_input_jsonschema()["properties"]
    assert set(asked) == {"question", "images", "options", "metric", "question_id", "messages"}
    assert all(field["title"] and field["description"] for field in asked.values())
    settings = graph.get_context_jsonschema()
    assert settings is not None
    assert settings["properties"]["temperature"]["maximum"] == 2
    assert all(field["title"] and field["description"] for field in settings["properties"].values())
    assert set(graph.get_output_jsonschema()["properties"]) >= {"answer", "route", "confidence", "steps", "degraded"}
