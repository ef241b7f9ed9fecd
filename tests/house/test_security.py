"""Each sentence of docs/security.md about who can do what holds: named beside the test that holds it.

What is tested elsewhere is named by its test, which must be there.
"""

import re
import runpy
from types import SimpleNamespace

import pytest
import uvicorn

from spmd_core.base import Settings
from spmd_core.lab import Asker, Lab
from spmd_core.lab.store.labels import KEPT
from spmd_core.workloads import Described, programs
from spmd_lab.ui.lab import asker
from tests.labs import HASTY, ROOT, experiment

TEXT = (ROOT / "docs/security.md").read_text("utf-8")
DOCUMENT = " ".join(TEXT.split())
# a sentence, or the part of one that somebody relies on -> the file and the test that hold it
HERE = "house/test_security.py"
KEPT_TEXT = "workloads/exported/test_sources.py"
HELD = {
    "The lists are read when the dashboard starts": (
        "lab/store/test_roles.py", "test_a_run_outlasts_the_role_of_who_submitted_it"),
    "the run is not ended, any runner or admin may cancel it, and only an admin deletes it": (
        "lab/store/test_roles.py", "test_a_run_outlasts_the_role_of_who_submitted_it"),
    "with which visitors without a login only look and estimate": (
        "lab/store/test_limits.py", "test_who_may_only_look_changes_nothing"),
    "all of one network address together 20": (
        "lab/store/test_limits.py", "test_addresses_are_counted_as_well_as_viewers"),
    "addresses and their visitors take turns": (
        "lab/store/test_limits.py", "test_addresses_and_their_viewers_take_turns"),
    "is listed by `who` with an e-mail address": (
        "lab/store/test_limits.py", "test_who_may_only_look_changes_nothing"),
    "come in with an address that is not confirmed or not listed": (
        "base/login/test_login.py", "test_others_are_turned_away"),
    "unless `SPMD_LAB_TOKEN` or a login is set": (
        "ui/entrance/test_token.py", "test_nothing_is_served_without_it"),
    "read the database": ("lab/store/test_private.py", "test_an_old_one_is_closed_on_start"),
    "under any other name they are refused with 403": (
        "ui/entrance/test_hosts.py", "test_foreign_names_are_refused_and_own_ones_served"),
    "also where its name is made to lead to this dashboard": (
        "browser/test_rebinding.py", "test_a_rebound_page_is_refused_and_a_listed_name_is_served"),
    "read, press or connect, except from an address or a name below": (
        "ui/entrance/test_hosts.py", "test_foreign_names_are_refused_and_own_ones_served"),
    "`*` allows any name": ("ui/entrance/test_hosts.py", "test_any_name_may_be_listed"),
    "Tunnels and other ports need no setting": (
        "ui/entrance/test_hosts.py", "test_foreign_names_are_refused_and_own_ones_served"),
    "the host of the login's `redirect_uri`": (
        "ui/entrance/test_hosts.py", "test_with_a_login_the_host_of_its_address_is_served"),
    "or in `server.corsAllowedOrigins`": (
        "ui/entrance/test_hosts.py", "test_allowed_origins_are_served_on_an_own_address"),
    "`/_stcore/health` is served under any name": (
        "ui/entrance/test_hosts.py", "test_a_health_check_comes_by_any_name_or_none"),
    "or show the screens in a frame": (
        "browser/test_framing.py", "test_every_answer_forbids_foreign_frames"),
    "each screen has a banner": (
        "ui/entrance/test_login.py", "test_an_open_address_without_login_is_pointed_out"),
    "Without a list nobody comes in": ("base/login/test_login.py", "test_others_are_turned_away"),
    "with `*`, whoever the provider knows": ("base/login/test_login.py", "test_members_come_in"),
    "Before a login nothing is served but": (
        "ui/entrance/test_before.py", "test_nothing_is_served_before_a_login"),
    "each message of an open tab is checked anew": (
        "ui/entrance/test_before.py", "test_a_login_is_over_at_once_for_each_tab_and_copy"),
    "A login lasts twelve hours": (
        "ui/entrance/test_before.py", "test_what_is_no_login_opens_nothing"),
    "in every open tab and for every copy of its cookie": (
        "ui/entrance/test_before.py", "test_a_login_is_over_at_once_for_each_tab_and_copy"),
    "all of the member's logins end": (
        "ui/entrance/test_before.py", "test_a_login_is_over_at_once_for_each_tab_and_copy"),
    "the member is no longer on the list of a dashboard that was started again": (
        "ui/entrance/test_before.py", "test_who_is_no_member_may_log_out"),
    "A run that was submitted before goes on": (
        "lab/store/test_roles.py", "test_a_run_outlasts_the_role_of_who_submitted_it"),
    "A login that was once seen is remembered in the data folder": (
        "base/login/test_login.py", "test_only_the_command_ends_a_login"),
    "where Authlib is missing": (
        "ui/entrance/test_gate.py", "test_without_what_a_login_needs_nothing_is_served"),
    "That holds at start and while the server runs": (
        "ui/entrance/test_gate.py", "test_it_is_closed_from_the_start"),
    "open connections end": (
        "ui/entrance/test_gate.py", "test_it_closes_while_it_runs_and_opens_once_repaired"),
    "it is exchanged for a cookie": (
        "ui/entrance/test_token.py", "test_it_is_exchanged_for_a_cookie_and_leaves_the_address"),
    "never part of a copied link": ("ui/entrance/test_token.py", "test_a_copied_link_has_none"),
    "that ends with the browser tab's session": (
        "ui/entrance/test_downloads.py", "test_an_address_stays_while_its_session_lasts"),
    "also in a folder that was open before": (
        "lab/store/test_private.py", "test_an_old_one_is_closed_on_start"),
    "where that is not possible, each screen reports it": (
        "lab/store/test_private.py", "test_where_it_cannot_be_closed_a_sentence_says_so"),
    "each screen requests a restart": (
        "ui/entrance/test_version.py", "test_each_screen_and_failure_says_so"),
    "sees all runs, cancels, deletes and renames": (
        HERE, "test_the_first_paragraph_says_what_one_visitor_can_do_to_others"),
    "by default where other machines can reach": (
        "lab/store/test_roles.py", "test_the_role_of_each"),
    "what the teammate's role allows, and without one look and estimate": (
        "lab/store/test_roles.py", "test_the_role_of_each"),
    "import, name or tag runs, or write collections": (
        "lab/store/test_roles.py", "test_whatever_else_is_done_asks_who_it_is"),
    "leads to no other host": (
        "ui/history/test_short.py", "test_no_path_leads_to_another_host_or_writes_a_header"),
    "Nothing that is stored is part of a preview": (
        "ui/history/test_short.py", "test_a_preview_holds_nothing_that_is_stored"),
    "takes little memory, whatever it inflates to": (
        "experiment/test_json_text.py", "test_many_values_are_refused_before_they_are_made"),
    "program texts and timelines are read as text where they are not": (
        "program/ir/test_reading.py", "test_a_text_that_nobody_has_written_is_shown_as_it_is"),
    "A report holds no script that runs": (
        "reports/test_reports.py", "test_a_report_has_every_number_of_the_result_and_runs_nothing"),
    "configs of models": (
        "plan/test_configs.py",
        "test_what_cannot_be_a_model_is_refused_in_one_sentence"),
    "is bounded before the server holds it": (
        "ui/entrance/test_uploads.py", "test_bytes_are_counted_as_they_come_and_not_as_they_are_announced"),
    "reads a bounded part of any file, and replaces only files of its own": (
        "commands/test_output.py", "test_what_somebody_else_wrote_is_replaced_only_by_force"),
    "list e-mail addresses that the provider confirms, or": (
        "lab/store/test_roles.py", "test_the_role_of_each"),
    "All others are viewers, who look and estimate; so is everybody where nobody is listed": (
        "lab/store/test_roles.py", "test_the_role_of_each"),
    "A runner also runs, cancels, imports, tags and releases": (
        "lab/store/test_roles.py", "test_each_role_may_do_so_much"),
    "An admin also deletes and renames what others ran": (
        "lab/store/test_roles.py", "test_each_role_may_do_so_much"),
    "The owner of a run is `issuer#sub`, never a displayed name": (
        "lab/store/test_roles.py", "test_the_owner_is_issuer_and_subject"),
    "not by hiding buttons": ("lab/store/test_roles.py", "test_each_role_may_do_so_much"),
    "The command line is an admin": ("lab/store/test_roles.py", "test_the_role_of_each"),
    "`audit` lists the same": ("lab/store/test_roles.py", "test_audit_lists_the_command_line_too"),
    "made of the address alone, escaped": (
        "ui/history/test_short.py", "test_a_preview_is_made_of_the_link_and_escaped"),
    "it is bounded in size, validated, and all or nothing of it": (
        "lab/test_archives.py", "test_a_bad_archive_is_refused_in_a_sentence_and_nothing_is_written"),
    "Imported runs never answer for this machine": (
        "lab/test_archives.py",
        "test_a_foreign_run_is_no_latest_result_and_no_recipe_that_is_done"),
    "Three settings limit that": ("lab/store/test_limits.py", "test_who_may_only_look_changes_nothing"),
    "takes at most 10 places of the queue": (
        "lab/store/test_limits.py",
        "test_a_viewer_and_all_viewers_have_so_many_runs_and_the_command_line_is_not_limited"),
    "open a link that computes": (
        "ui/test_hostile_links.py", "test_a_sample_of_hostile_links_breaks_no_screen_and_no_command"),
    "all of the above": (
        HERE, "test_the_first_paragraph_says_what_one_visitor_can_do_to_others"),
    "send Python code": ("workloads/own/test_files.py", "test_no_code_of_the_user_runs_in_this_process"),
    "read or write files": (
        "lab/store/test_limits.py", "test_other_flags_come_from_no_link_and_no_browser"),
    "look, export, estimate without compiling": (
        "lab/store/test_limits.py", "test_who_may_only_look_changes_nothing"),
    "hands in at most 20 programs": ("lab/test_programs.py", "test_a_viewer_holds_a_bounded_number"),
    "all of one network address together 60": (
        "lab/test_programs.py", "test_visitors_of_one_address_hold_a_bounded_number"),
    "run, cancel, delete, release, hand in programs": (
        "lab/store/test_limits.py", "test_who_may_only_look_changes_nothing"),
    "nothing while the dashboard listens on 127.0.0.1": (
        HERE, "test_it_listens_on_this_machine_only_unless_told_otherwise"),
    "come from another address by a header": (
        HERE, "test_an_address_is_taken_from_the_header_of_a_named_proxy_alone"),
    "The dashboard listens on 127.0.0.1 only": (
        HERE, "test_it_listens_on_this_machine_only_unless_told_otherwise"),
    "is believed only from the addresses in `SPMD_LAB_PROXY`": (
        HERE, "test_an_address_is_taken_from_the_header_of_a_named_proxy_alone"),
    "only an address that the provider confirms (`email_verified`) counts": (
        "base/login/test_login.py", "test_others_are_turned_away"),
    "From then on nothing but a sentence is served": (
        "ui/entrance/test_gate.py", "test_it_is_closed_from_the_start"),
    "always where the file cannot be read or does not parse": (
        "ui/entrance/test_gate.py", "test_a_damaged_file_closes_and_is_remembered_if_it_mentions_a_login"),
    "Only this ends a login": ("base/login/test_login.py", "test_only_the_command_ends_a_login"),
    "nothing is served before a link with": (
        "ui/entrance/test_token.py", "test_nothing_is_served_without_it"),
    "of the last 10,000 actions": (
        "lab/store/test_limits.py", "test_it_is_kept_who_did_what_up_to_a_number"),
    "else the network address and a mark of the browser": (HERE, "test_who_somebody_is"),
    "decoded, bounded in size, and validated": (
        "experiment/test_link.py", "test_a_bomb_is_refused_without_inflating_it"),
    "never unpickled or evaluated": (HERE, "test_links_are_neither_unpickled_nor_evaluated"),
    "Opening one never computes anything": (
        "ui/test_hostile_links.py", "test_a_sample_of_hostile_links_breaks_no_screen_and_no_command"),
    "taken by a list alone; none reads or writes files": (
        "lab/store/test_limits.py", "test_the_table_of_flags_has_a_reason_for_each_and_those_of_published_runs"),
    "No Python comes from the browser": (
        "workloads/own/test_files.py", "test_no_code_of_the_user_runs_in_this_process"),
    "data, read by a child process with limits of time and memory": (
        "engine/exported/test_describe.py", "test_what_is_no_program_ends_in_one_sentence"),
    "Only custom calls that JAX guarantees are allowed": (
        "engine/exported/test_describe.py", "test_a_custom_call_that_is_not_on_the_list_is_refused"),
    "The worker that runs it has no secrets": (
        "lab/test_programs.py", "test_a_worker_of_a_program_has_no_secrets"),
    "none is taken, with `compile` none is run": (
        "lab/test_programs.py", "test_the_owner_says_what_is_done_with_programs"),
    "Where the dashboard listens beyond this machine without a login, none are taken": (
        "ui/entrance/test_uploads.py", "test_uploads_are_refused_where_anybody_could_send_them"),
    "A program keeps the name that it was given first": (
        "lab/test_programs.py", "test_a_name_stays_with_who_handed_the_program_in"),
    "keep the text of the files of your own that the program names": (
        KEPT_TEXT, "test_files_that_the_program_names_are_kept_until_it_is_deleted"),
    "A file from the browser brings none": (
        KEPT_TEXT, "test_files_that_the_program_names_are_kept_until_it_is_deleted"),
    "Whoever may look sees the lines that a result names": (
        "engine/exported/test_quoted.py", "test_a_run_stores_the_lines_that_it_names_and_a_link_none"),
    "A run stores those lines": (
        "engine/exported/test_quoted.py", "test_a_run_stores_the_lines_that_it_names_and_a_link_none"),
    "Deleting a program deletes the text of its files": (
        KEPT_TEXT, "test_files_that_the_program_names_are_kept_until_it_is_deleted"),
    "Lines that runs have stored stay": (
        "engine/exported/test_quoted.py", "test_a_run_stores_the_lines_that_it_names_and_a_link_none"),
    "it makes no link, picture or icon": (
        "browser/test_hostile_text.py", "test_a_text_of_others_makes_no_link_picture_or_icon"),
    "steers no terminal": ("base/test_foreign.py", "test_what_is_printed_steers_no_terminal"),
    "No picture of another host is fetched": (
        "browser/test_hostile_text.py", "test_no_picture_of_another_host_is_fetched"),
    "in no process with the lab's secrets": (
        "lab/cluster/test_doors.py", "test_a_payload_runs_neither_in_the_lab_nor_beside_its_secrets"),
    "loaded only by child processes": (
        "workloads/own/test_files.py", "test_no_code_of_the_user_runs_in_this_process"),
    "needs more memory than there is is refused before it starts": (
        "ui/compare/test_compare.py",
        "test_too_large_for_memory_is_refused_with_the_bytes_and_the_limit"),
    "one that takes longer than `SPMD_LAB_RUN_TIMEOUT_S` is ended": (
        "lab/supervisor/test_engine.py", "test_a_native_computation_that_takes_too_long_is_ended"),
    "crashes, hangs or runs out of memory costs one run": (
        "workloads/own/test_files.py",
        "test_a_function_that_misbehaves_costs_its_own_run"),
    "nearly all the memory that is free is ended, and named": (
        "workloads/own/test_files.py",
        "test_a_function_that_eats_memory_is_ended_and_named"),
    "also while its file is loaded": (
        "workloads/own/test_files.py",
        "test_a_file_that_eats_memory_while_it_loads_is_ended_and_named"),
    "Uploads are counted as they come": (
        "ui/entrance/test_uploads.py",
        "test_bytes_are_counted_as_they_come_and_not_as_they_are_announced"),
    "let go of with their session": (
        "ui/entrance/test_uploads.py",
        "test_a_closed_session_holds_no_upload_and_is_ended_after_a_while"),
    "A connection without a request ends": (
        "ui/entrance/test_connections.py", "test_half_of_a_head_ends"),
    "beyond, new tabs are refused with a sentence": (
        "ui/entrance/test_gate.py", "test_new_tabs_are_refused_while_few_descriptors_are_left"),
    "What viewers may queue and store is limited": (
        "lab/store/test_limits.py", "test_a_full_store_refuses_viewers_and_names_the_oldest"),
    "what the server keeps of their searches": (
        "trials/searching/test_searches.py",
        "test_the_searches_in_memory_are_few_and_of_few_candidates"),
    "in the user's own folder (mode 0700)": (
        "lab/store/test_store.py", "test_the_folder_is_the_users_own_and_the_journal_is_a_rollback_journal"),
}  # fmt: skip
# what says how to set something up, where it stands, or how browsers are
NO_CLAIM = (
    "The provider is not queried again while a login lasts",
    "Tunnel to it",
    "Whoever reaches the dashboard can run programs",
    "Before binding it to another address",
    "describe your identity provider",
    "Add a name once for each",
    "Members are e-mail addresses and domains",
    "Other users of the machine reach 127.0.0.1 too",
    "Browsers send a host's cookies to all of its ports",
    "What visitors submit, cancel, delete, release and search is kept",
    "Every screen has a link that reproduces it",
    "See [settings]",
    "who | can | cannot",
    "Without a login, every visitor has the same power",
)


@pytest.mark.parametrize("sentence", HELD)
def test_a_sentence_is_there_and_so_is_its_test(sentence):
    file, name = HELD[sentence]
    assert sentence in DOCUMENT
    assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")


def sentences() -> list[str]:
    """The document's sentences, and the parts of the cells of its table."""
    text = re.sub(r"```.*?```", "", TEXT.partition("\n\n")[2], flags=re.DOTALL)
    found = []
    for block in text.split("\n\n"):
        for line in block.splitlines() if block.startswith("|") else [" ".join(block.split())]:
            if line.startswith("|"):
                found += re.split(r"\||; ", line.partition("|")[2].partition("|")[2])
            else:
                found += re.split(r"(?<=[.:])\**\s+(?=[A-Z`*])", line)
    headings = re.compile(r"\*\*[\w ]+\.")
    found = [each.strip() for each in found if re.search(r"\w \w", each)]
    return [each for each in found if not headings.fullmatch(each)]


@pytest.mark.parametrize("sentence", sentences())
def test_every_sentence_is_held_by_a_test_or_claims_nothing(sentence):
    assert any(part in sentence for part in (*HELD, *NO_CLAIM)), sentence


def test_links_are_neither_unpickled_nor_evaluated():
    for path in [
        *(ROOT / "spmd_core/experiment").rglob("*.py"),
        *(ROOT / "spmd_lab").rglob("*.py"),
    ]:
        names = set(
            re.findall(r"\b(pickle|marshal|shelve|eval|exec)\b(?=[.(])", path.read_text("utf-8"))
        )
        assert not names, path


def test_who_somebody_is(monkeypatch):
    def asks(**user):
        context = SimpleNamespace(ip_address="10.0.0.1", cookies={"_streamlit_xsrf": "a"})
        monkeypatch.setattr("spmd_lab.ui.lab.st", SimpleNamespace(user=user, context=context))
        return asker()

    visitor, member = asks(), asks(is_logged_in=True, email="a@example.com", email_verified=True)
    assert (visitor.who, visitor.is_logged_in) == (f"10.0.0.1, browser {visitor.viewer}", False)
    assert (member.who, member.address, member.is_logged_in) == ("a@example.com", None, True)
    other = asks(is_logged_in=True, email="a@example.com", iss="https://login", sub="7")
    assert other.who == "https://login 7", "of an address that nobody confirms"


@pytest.fixture
def lab(data_folder):
    """A Lab that works no queue."""
    lab = Lab.open(data_folder, serve=False, settings=HASTY)
    lab._is_wanted = lab._supervisor._is_wanted = lambda: False
    return lab


def test_the_first_paragraph_says_what_one_visitor_can_do_to_others(lab):
    said = " ".join(TEXT.split("\n\n")[1].split())
    assert "cancels, deletes and renames those of others, releases the devices" in said
    ann, eve = Asker("ann", address="10.0.0.1"), Asker("eve", address="10.0.0.2")
    run = lab.submit(experiment(), ann)
    lab.cancel(run, asker=eve)
    assert lab.status(run).state == "cancelled"
    assert lab.delete([run], eve) == 1
    lab.release(eve)
    assert "hands in and deletes programs" in said
    of_ann = Described(
        program="0" * 64,
        name="ann's",
        function="f",
        platforms=("cpu",),
        mesh=(),
        devices=1,
        arguments=(),
        outputs=(),
        bytes=0,
        viewer="ann",
    )
    programs.folder().mkdir()
    (programs.folder() / f"{of_ann.program}.json").write_text(of_ann.model_dump_json())
    (programs.folder() / f"{of_ann.program}.jaxexport").write_bytes(b"its file")
    assert lab.programs() == (of_ann.listed,)
    lab.delete_program(of_ann.program, eve)
    assert lab.programs() == ()
    assert lab._store.requests()[-1].kind == "release"


def test_its_numbers_are_those_of_the_code():
    settings = Settings()
    assert f"at most {settings.queue_most_of_viewer} places" in DOCUMENT
    assert f"together {settings.queue_most_of_address}" in DOCUMENT
    assert f"{KEPT:,} actions" in DOCUMENT
    assert f"at most {programs.MOST_OF_VIEWER} programs" in DOCUMENT
    assert f"together {programs.MOST_OF_ADDRESS} |" in DOCUMENT


def test_it_listens_on_this_machine_only_unless_told_otherwise():
    config = (ROOT / ".streamlit/config.toml").read_text("utf-8")
    assert re.search(r'^address = "127.0.0.1"$', config, re.MULTILINE)


@pytest.mark.parametrize(
    ("proxies", "believed"), [("", "127.0.0.1"), ("127.0.0.1", "198.51.100.7")]
)
def test_an_address_is_taken_from_the_header_of_a_named_proxy_alone(proxies, believed, monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    monkeypatch.setenv("SPMD_LAB_PROXY", proxies)
    runpy.run_path(str(ROOT / "app.py"), run_name="app")
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["client"][0])

    config = uvicorn.Config(app, log_config=None)
    config.load()
    scope = {
        "type": "http",
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "headers": [(b"x-forwarded-for", b"198.51.100.7")],
    }
    with pytest.raises(StopIteration):
        config.loaded_app(scope, None, None).send(None)
    assert seen == [believed]
