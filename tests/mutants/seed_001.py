"""Spec locks: a mutant for every promise of 001.

001-22 promises tests, so its mutants break tests.
"""

from __future__ import annotations

from mutants.table import Mutant

MUTANTS: list[Mutant] = [
    Mutant(
        "001-P1",
        "the lock file has another name",
        "specs/lockfile.py",
        'NAME = ".lock"',
        'NAME = "lock.json"',
        (
            "tests/specs/test_seed_001.py::test_seed001_p1_locking_makes_a_valid_lock_file",
            "tests/specs/test_spec_files.py::test_the_file_is_byte_for_byte_what_the_other_program_writes",
        ),
    ),
    Mutant(
        "001-P1",
        "the file has the machine's id instead of its host name",
        "specs/spec_locks.py",
        "hostname=machine.hostname,",
        "hostname=machine.id,",
        (
            "tests/specs/test_seed_001.py::test_seed001_p1_locking_makes_a_valid_lock_file",
            "tests/specs/test_spec_files.py::test_the_file_is_byte_for_byte_what_the_other_program_writes",
        ),
    ),
    Mutant(
        "001-P1",
        "the version is missing",
        "specs/lockfile_codec.py",
        "        version=_text(lock.version),\n",
        "",
        (
            "tests/specs/test_seed_001.py::test_seed001_p1_locking_makes_a_valid_lock_file",
            "tests/specs/test_spec_files.py::test_the_file_is_byte_for_byte_what_the_other_program_writes",
        ),
    ),
    Mutant(
        "001-P1",
        "the moment is written without milliseconds",
        "specs/staleness.py",
        '{at.tm_sec:02d}.{fraction:03d}Z"',
        '{at.tm_sec:02d}Z"',
        (
            "tests/specs/test_spec_files.py::test_the_file_is_byte_for_byte_what_the_other_program_writes",
        ),
    ),
    Mutant(
        "001-P2",
        "another machine's lock counts as damaged, and is replaced",
        "specs/spec_locks.py",
        "            if found:\n                self._complete",
        "            found = [one for one in found if self.is_owned(one.lock)]\n            for home in [] if found else places:\n                home.files.remove(spec_name)\n            if found:\n                self._complete",
        (
            "tests/specs/test_seed_001.py::test_seed001_p2_another_machine_is_refused_with_the_existing_lock",
            "tests/specs/test_spec_locks.py::test_of_many_machines_that_lock_at_once_one_wins",
        ),
    ),
    Mutant(
        "001-P2",
        "the refusal does not show the existing lock",
        "specs/spec_locks.py",
        "error=ALREADY_LOCKED, existing_lock=shown.lock)",
        "error=ALREADY_LOCKED)",
        (
            "tests/specs/test_seed_001.py::test_seed001_p2_another_machine_is_refused_with_the_existing_lock",
        ),
    ),
    Mutant(
        "001-P2",
        "a lock replaces one that another program has just created",
        "specs/spec_folders.py",
        "        if self.files.publish(spec_name, lock):\n            return True\n",
        """\
        if not self.files.publish(spec_name, lock):
            self.files.remove(spec_name)
            self.files.publish(spec_name, lock)
        if lock:
            return True
""",
        (
            "tests/specs/test_seed_001.py::test_seed001_p2_a_lock_created_after_the_check_refuses_too",
        ),
    ),
    Mutant(
        "001-P3",
        "blanks around a reason are removed",
        "specs/spec_locks.py",
        """\
            reason=reason,
            timeout=hours,""",
        """\
            reason=reason and reason.strip(),
            timeout=hours,""",
        ("tests/specs/test_seed_001.py::test_seed001_p3_the_reason_is_kept_exactly",),
    ),
    Mutant(
        "001-P3",
        "an empty reason is read as none",
        "specs/lockfile_codec.py",
        "reason=reason if isinstance(reason, str) else None",
        "reason=reason if reason and isinstance(reason, str) else None",
        ("tests/specs/test_seed_001.py::test_seed001_p3_the_reason_is_kept_exactly",),
    ),
    Mutant(
        "001-P4",
        "a release does not remove the file",
        "specs/spec_locks.py",
        "            one.home.files.remove(spec_name)\n            one.home.notes.forget(spec_name)\n        return UnlockResult",
        "            one.home.notes.forget(spec_name)\n        return UnlockResult",
        ("tests/specs/test_seed_001.py::test_seed001_p4_the_owner_releases_and_the_file_is_gone",),
    ),
    Mutant(
        "001-P4",
        "any holder on a machine may release its locks",
        "specs/spec_locks.py",
        'return "" if noted is None or self._is_held(found) or is_gone(noted) else OTHER_HOLDER',
        'return ""',
        (
            "tests/specs/test_seed_001.py::test_seed001_p4_the_machine_owns_a_lock_and_its_holders_are_told_apart",
        ),
    ),
    Mutant(
        "001-P5",
        "any machine may unlock without force",
        "specs/spec_locks.py",
        "        if not self.is_owned(found.lock):\n            return OTHER_MACHINE\n",
        "",
        ("tests/specs/test_seed_001.py::test_seed001_p5_another_machine_releases_only_with_force",),
    ),
    Mutant(
        "001-P5",
        "force is ignored",
        "specs/spec_locks.py",
        "given = found if force else self._ours(found)",
        "given = self._ours(found)",
        ("tests/specs/test_seed_001.py::test_seed001_p5_another_machine_releases_only_with_force",),
    ),
    Mutant(
        "001-P6",
        "only this machine's locks are listed",
        "specs/spec_locks.py",
        "[status for status in found if status.locked]",
        "[status for status in found if status.is_owned_by_me]",
        (
            "tests/specs/test_seed_001.py::test_seed001_p6_a_status_shows_everything_about_all_locked_specs",
        ),
    ),
    Mutant(
        "001-P6",
        "a status lacks the time of the lock",
        "specs/spec_locks.py",
        "            duration=_held_for(lock, now),\n",
        "",
        (
            "tests/specs/test_seed_001.py::test_seed001_p6_a_status_shows_everything_about_all_locked_specs",
        ),
    ),
    Mutant(
        "001-P6",
        "a status lacks the owner",
        "specs/spec_locks.py",
        "            is_owned_by_me=self.is_owned(lock),\n",
        "",
        (
            "tests/specs/test_seed_001.py::test_seed001_p6_a_status_shows_everything_about_all_locked_specs",
        ),
    ),
    Mutant(
        "001-P7",
        "the timeout counts minutes",
        "specs/staleness.py",
        "held > lock.timeout * HOUR",
        "held > lock.timeout * 60_000",
        (
            "tests/specs/test_seed_001.py::test_seed001_p7_a_lock_is_stale_exactly_when_it_is_older_than_its_timeout",
            "tests/specs/test_seed_001.py::test_seed001_p7_at_the_very_moment_of_its_timeout_it_is_still_within_it",
        ),
    ),
    Mutant(
        "001-P7",
        "a lock is stale exactly at its timeout",
        "specs/staleness.py",
        "held > lock.timeout * HOUR",
        "held >= lock.timeout * HOUR",
        (
            "tests/specs/test_seed_001.py::test_seed001_p7_at_the_very_moment_of_its_timeout_it_is_still_within_it",
        ),
    ),
    Mutant(
        "001-P7",
        "a status uses the default timeout for every lock",
        "specs/spec_locks.py",
        "            is_stale=staleness.is_stale(lock, now),",
        "            is_stale=(staleness.age(lock, now) or 0) > TIMEOUT_HOURS_DEFAULT * staleness.HOUR,",
        (
            "tests/specs/test_seed_001.py::test_seed001_p7_a_lock_is_stale_exactly_when_it_is_older_than_its_timeout",
        ),
    ),
    Mutant(
        "001-P7",
        "a lock with an unreadable time is stale",
        "specs/staleness.py",
        "return held is not None and held >",
        "return held is None or held >",
        ("tests/specs/test_spec_files.py::test_an_invalid_time_is_none_and_never_stale",),
    ),
    Mutant(
        "001-P7",
        "the age of a lock from the future is negative",
        "specs/staleness.py",
        "None if taken is None or taken > now else",
        "None if taken is None else",
        ("tests/specs/test_spec_files.py::test_a_lock_from_the_future_is_never_stale",),
    ),
    Mutant(
        "001-P8",
        "a clean-up removes all locks",
        "specs/spec_locks.py",
        "if seen is None or lock is None or not staleness.is_stale(lock, self._now()):",
        "if seen is None or lock is None:",
        (
            "tests/specs/test_seed_001.py::test_seed001_p8_a_clean_up_removes_the_stale_locks_and_no_others",
        ),
    ),
    Mutant(
        "001-P8",
        "a clean-up removes only this machine's locks",
        "specs/spec_locks.py",
        "if seen is None or lock is None or not staleness.is_stale(lock, self._now()):",
        "if seen is None or lock is None or not self.is_owned(lock) or not staleness.is_stale(lock, self._now()):",
        (
            "tests/specs/test_seed_001.py::test_seed001_p8_a_clean_up_removes_the_stale_locks_and_no_others",
        ),
    ),
    Mutant(
        "001-P8",
        "a clean-up lists the files and removes none",
        "specs/spec_locks.py",
        "if not home.files.is_still(spec_name, seen) or not home.files.remove(spec_name):",
        "if not home.files.is_still(spec_name, seen):",
        (
            "tests/specs/test_seed_001.py::test_seed001_p8_a_clean_up_removes_the_stale_locks_and_no_others",
        ),
    ),
    Mutant(
        "001-P9",
        "the host name decides, not the id",
        "specs/spec_locks.py",
        "return known is not None and known.id == lock.machine_id",
        "return known is not None and known.hostname == lock.hostname",
        (
            "tests/specs/test_seed_001.py::test_seed001_p9_a_lock_is_mine_exactly_when_the_machine_matches",
        ),
    ),
    Mutant(
        "001-P9",
        "the host name decides for a machine that the caller passed",
        "specs/spec_locks.py",
        "return machine.get_machine_id().id == lock.machine_id",
        "return machine.get_machine_id().hostname == lock.hostname",
        (
            "tests/specs/test_seed_001.py::test_seed001_p9_a_lock_is_mine_exactly_when_the_machine_matches",
        ),
    ),
    Mutant(
        "001-P10",
        "the id is made up and not kept",
        "specs/machine.py",
        """\
                spec_files.publish(
                    self._file, lockfile_codec.machine_bytes(self.generate_machine_id())
                )
""",
        "                self._known = self.generate_machine_id()\n",
        ("tests/specs/test_seed_001.py::test_seed001_p10_the_machine_id_is_the_same_for_ever",),
    ),
    Mutant(
        "001-P10",
        "every process has an id of its own",
        "specs/machine.py",
        'FILE = "machine-id.json"',
        'FILE = f"machine-id-{os.getpid()}.json"',
        (
            "tests/specs/test_seed_001.py::test_seed001_p10_the_machine_id_is_the_same_for_ever",
            "tests/specs/test_spec_machines.py::test_ten_processes_that_start_at_once_are_one_machine",
        ),
    ),
    Mutant(
        "001-P11",
        "the host name is left out",
        "specs/machine.py",
        'id=f"{name}-{uuid4()}"',
        "id=str(uuid4())",
        (
            "tests/specs/test_seed_001.py::test_seed001_p11_a_machine_id_is_the_host_name_and_a_uuid",
            "tests/specs/test_spec_machines.py::test_a_machine_without_a_name_gets_one",
        ),
    ),
    Mutant(
        "001-P11",
        "what is unique follows from the host name",
        "specs/machine.py",
        """\
        from uuid import uuid4

        name = host_name()
""",
        """\
        from random import Random
        from uuid import UUID

        name = host_name()

        def uuid4() -> UUID:
            return UUID(int=Random(name).getrandbits(128), version=4)

""",
        (
            "tests/specs/test_seed_001.py::test_seed001_p11_a_machine_id_is_the_host_name_and_a_uuid",
        ),
    ),
    Mutant(
        "001-P11",
        "a machine without a name has an empty one",
        "specs/machine.py",
        "return name.strip() or NO_HOST",
        "return name.strip()",
        ("tests/specs/test_spec_machines.py::test_a_machine_without_a_name_gets_one",),
    ),
    Mutant(
        "001-P12",
        "parts of hours are lost",
        "specs/lockfile_codec.py",
        "timeout=number(lock.timeout)",
        "timeout=number(int(lock.timeout))",
        ("tests/specs/test_seed_001.py::test_seed001_p12_what_is_written_is_read_back_the_same",),
    ),
    Mutant(
        "001-P12",
        "the version that was written is not read",
        "specs/lockfile_codec.py",
        "version=version if isinstance(version, str) else VERSION",
        "version=VERSION",
        ("tests/specs/test_seed_001.py::test_seed001_p12_what_is_written_is_read_back_the_same",),
    ),
    Mutant(
        "001-P12",
        "half pairs of surrogates are written as they are",
        "specs/lockfile_codec.py",
        """\
    if spelled.isascii():
        return spelled
""",
        "    return spelled\n",
        ("tests/specs/test_seed_001.py::test_seed001_p12_what_is_written_is_read_back_the_same",),
    ),
    Mutant(
        "001-P13",
        "a file without a host name or a moment is a lock",
        "specs/lockfile_codec.py",
        "if not owner or not machine or host is None or timestamp is None:",
        "if not owner or not machine:",
        (
            "tests/specs/test_seed_001.py::test_seed001_p13_a_corrupt_file_is_not_a_lock_and_a_new_one_can_be_acquired",
        ),
    ),
    Mutant(
        "001-P13",
        "JSON that is nested too deep is an error",
        "specs/lockfile_codec.py",
        "except (ValueError, RecursionError):",
        "except ValueError:",
        (
            "tests/specs/test_seed_001.py::test_seed001_p13_a_corrupt_file_is_not_a_lock_and_a_new_one_can_be_acquired",
        ),
    ),
    Mutant(
        "001-P13",
        "a damaged file keeps new locks out",
        "specs/spec_folders.py",
        """\
        if not home.files.keep_aside(spec_name, seen):
            return False
""",
        """\
        raise PermissionError(13, "it is damaged")
""",
        (
            "tests/specs/test_seed_001.py::test_seed001_p13_a_corrupt_file_is_not_a_lock_and_a_new_one_can_be_acquired",
            "tests/specs/test_spec_files.py::test_something_else_in_its_place_is_kept_aside",
        ),
    ),
    Mutant(
        "001-P14",
        "a missing version is empty",
        "specs/lockfile_codec.py",
        "version=version if isinstance(version, str) else VERSION",
        'version=version if isinstance(version, str) else ""',
        (
            "tests/specs/test_seed_001.py::test_seed001_p14_optional_fields_that_are_missing_get_their_defaults",
        ),
    ),
    Mutant(
        "001-P14",
        "a lock without a reason cannot be read",
        "specs/lockfile_codec.py",
        'fields.get("reason"), fields.get("version")',
        'fields["reason"], fields.get("version")',
        (
            "tests/specs/test_seed_001.py::test_seed001_p14_optional_fields_that_are_missing_get_their_defaults",
        ),
    ),
    Mutant(
        "001-P15",
        "without a file a spec counts as locked",
        "specs/spec_locks.py",
        "return LockStatus(spec_name, False), None",
        "return LockStatus(spec_name, seen is None), None",
        ("tests/specs/test_seed_001.py::test_seed001_p15_without_a_file_a_spec_is_not_locked",),
    ),
    Mutant(
        "001-P15",
        "without a file a status has an error",
        "specs/spec_locks.py",
        "return LockStatus(spec_name, False), None",
        "return LockStatus(spec_name, False, error=NOT_LOCKED), None",
        ("tests/specs/test_seed_001.py::test_seed001_p15_without_a_file_a_spec_is_not_locked",),
    ),
    Mutant(
        "001-16",
        "a method of the lock manager has another name",
        "specs/spec_locks.py",
        "def is_locked_by_me(",
        "def is_mine(",
        ("tests/specs/test_seed_001.py::test_seed001_16_the_three_interfaces_have_their_methods",),
    ),
    Mutant(
        "001-16",
        "a method of the machine identifier has another name",
        "specs/machine.py",
        '        return MachineId(id=f"{name}-{uuid4()}", hostname=name, created_at=now)\n\n    def get_machine_info(',
        '        return MachineId(id=f"{name}-{uuid4()}", hostname=name, created_at=now)\n\n    def machine_info(',
        ("tests/specs/test_seed_001.py::test_seed001_16_the_three_interfaces_have_their_methods",),
    ),
    Mutant(
        "001-16",
        "the first parameter of the lock manager has another name",
        "specs/spec_locks.py",
        """\
        workspace_root: str | os.PathLike[str],
        machine: Machine | None = None,
""",
        """\
        machine: Machine | None = None,
        workspace_root: str | os.PathLike[str] = ".",
""",
        ("tests/specs/test_seed_001.py::test_seed001_16_the_three_interfaces_have_their_methods",),
    ),
    Mutant(
        "001-16",
        "deleting a missing item reports success",
        "specs/lockfile.py",
        """\
            os.unlink(path)
        except FileNotFoundError:
            return False
""",
        """\
            os.unlink(path)
        except FileNotFoundError:
            return True
""",
        (
            "tests/specs/test_seed_001.py::test_seed001_16_a_lock_file_is_written_read_listed_and_deleted",
        ),
    ),
    Mutant(
        "001-16",
        "all specs are listed, locked or not",
        "specs/lockfile.py",
        "[name for name in self._specs() if self._has_file(name)]",
        "self._specs()",
        (
            "tests/specs/test_seed_001.py::test_seed001_16_a_lock_file_is_written_read_listed_and_deleted",
        ),
    ),
    Mutant(
        "001-16",
        "a second write is lost",
        "specs/lockfile.py",
        "replace_file(path, data, mode=0o644, durable=True)",
        "spec_files.publish(path, data)",
        ("tests/specs/test_seed_001.py::test_seed001_16_a_second_write_replaces_the_first",),
    ),
    Mutant(
        "001-17",
        "the default timeout is 8 hours",
        "specs/results.py",
        "TIMEOUT_HOURS_DEFAULT = 24",
        "TIMEOUT_HOURS_DEFAULT = 8",
        (
            "tests/specs/test_seed_001.py::test_seed001_17_the_timeout_is_24_hours_unless_one_is_given",
            "tests/specs/test_seed_001.py::test_seed001_17_the_five_commands",
        ),
    ),
    Mutant(
        "001-17",
        "the command has a default timeout of its own",
        "cli/spec_commands.py",
        "        return TIMEOUT_HOURS_DEFAULT\n",
        "        return 1\n",
        ("tests/specs/test_seed_001.py::test_seed001_17_the_five_commands",),
    ),
    Mutant(
        "001-17",
        "the command ignores the reason",
        "cli/spec_commands.py",
        'reason=call.text("reason"), ',
        "",
        ("tests/specs/test_seed_001.py::test_seed001_17_the_five_commands",),
    ),
    Mutant(
        "001-17",
        "the command ignores the timeout",
        "cli/spec_commands.py",
        ", timeout=_hours(call))",
        ")",
        ("tests/specs/test_seed_001.py::test_seed001_17_the_five_commands",),
    ),
    Mutant(
        "001-17",
        "the command ignores force",
        "cli/spec_commands.py",
        "locks.release_lock(name, force=force)",
        "locks.release_lock(name)",
        ("tests/specs/test_seed_001.py::test_seed001_17_the_five_commands",),
    ),
    Mutant(
        "001-17",
        "the clean-up command only lists",
        "cli/spec_commands.py",
        "    result = _locks(call, complete=True).cleanup_stale_locks()\n",
        "    from holdfast.specs.results import CleanupResult\n\n    result = CleanupResult()\n",
        ("tests/specs/test_seed_001.py::test_seed001_17_the_five_commands",),
    ),
    Mutant(
        "001-17",
        "the command that prints the holder has another name",
        "cli/families/spec.py",
        'Command("spec whoami"',
        'Command("spec machine"',
        ("tests/specs/test_seed_001.py::test_seed001_17_the_five_commands",),
    ),
    Mutant(
        "001-17",
        "git is not asked for the owner's name",
        "specs/owner_names.py",
        "named = _from_git(workspace)",
        'named = ""',
        ("tests/specs/test_spec_machines.py::test_the_owner_is_git_s_name_else_the_users",),
    ),
    Mutant(
        "001-18",
        "fields are spelled with underscores",
        "specs/results.py",
        """\
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
""",
        "    return name\n",
        ("tests/specs/test_seed_001.py::test_seed001_18_the_shapes_have_their_fields",),
    ),
    Mutant(
        "001-18",
        "what could not be cleaned up is counted as cleaned",
        "specs/results.py",
        "= len(cleaned_locks)",
        "= len(cleaned_locks) + len(errors)",
        ("tests/specs/test_seed_001.py::test_seed001_18_the_shapes_have_their_fields",),
    ),
    Mutant(
        "001-18",
        "milliseconds are taken for microseconds",
        "specs/spec_locks.py",
        "duration((now - taken) * 1000)",
        "duration(now - taken)",
        ("tests/specs/test_seed_001.py::test_seed001_18_the_duration_is_for_people",),
    ),
    Mutant(
        "001-18",
        "the kind of system is told instead of the platform",
        "specs/machine.py",
        "platform=sys.platform",
        "platform=os.name",
        ("tests/specs/test_seed_001.py::test_seed001_18_the_machine_info_is_for_people",),
    ),
    Mutant(
        "001-19",
        "a machine is granted a lock again that it already holds",
        "specs/spec_locks.py",
        "            if found:\n                self._complete",
        "            if any(self.is_owned(one.lock) for one in found):\n                return LockResult(True, lock=found[0].lock)\n            if found:\n                self._complete",
        (
            "tests/specs/test_seed_001.py::test_seed001_19_already_locked_even_for_the_machine_that_holds_it",
        ),
    ),
    Mutant(
        "001-19",
        "the text for a locked spec is another one",
        "specs/errors.py",
        'ALREADY_LOCKED = "Spec is already locked"',
        'ALREADY_LOCKED = "The spec is locked"',
        (
            "tests/specs/test_seed_001.py::test_seed001_19_already_locked_even_for_the_machine_that_holds_it",
        ),
    ),
    Mutant(
        "001-19",
        "a spec that is not there is made",
        "specs/spec_locks.py",
        "        found = [home for home in self._homes if home.files.has_spec(spec_name)]\n",
        "        os.makedirs(os.path.dirname(self.files.path(spec_name)), exist_ok=True)\n        found = [home for home in self._homes if home.files.has_spec(spec_name)]\n",
        ("tests/specs/test_seed_001.py::test_seed001_19_a_missing_spec_is_not_found",),
    ),
    Mutant(
        "001-19",
        "names that begin with a dot are accepted",
        "specs/spec_names.py",
        'not text or text.isspace() or text[0] == ".":',
        "not text or text.isspace():",
        ("tests/specs/test_seed_001.py::test_seed001_19_a_name_that_leads_elsewhere_is_invalid",),
    ),
    Mutant(
        "001-19",
        "names with slashes are accepted",
        "specs/spec_names.py",
        '    if "/" in text or "\\\\" in text or not',
        "    if not",
        ("tests/specs/test_seed_001.py::test_seed001_19_a_name_that_leads_elsewhere_is_invalid",),
    ),
    Mutant(
        "001-19",
        "a folder that may not be written is an exception",
        "specs/spec_files.py",
        "(errno.EACCES, errno.EPERM, errno.EROFS)",
        "(errno.EPERM, errno.EROFS)",
        (
            "tests/specs/test_seed_001.py::test_seed001_19_a_folder_that_may_not_be_written_is_permission_denied",
        ),
    ),
    Mutant(
        "001-20",
        "unlocking an unlocked spec is an error",
        "specs/spec_locks.py",
        "        if not found:\n            return UnlockResult(True, message=NOT_LOCKED)\n",
        "        if not found:\n            return UnlockResult(False, error=NOT_FOUND)\n",
        (
            "tests/specs/test_seed_001.py::test_seed001_20_releasing_an_unlocked_spec_is_not_an_error",
        ),
    ),
    Mutant(
        "001-20",
        "a file that cannot be removed is an exception",
        "specs/spec_locks.py",
        """\
        except OSError:
            return UnlockResult(False, error=NOT_REMOVED)
""",
        """\
        except FileNotFoundError:
            return UnlockResult(False, error=NOT_REMOVED)
""",
        (
            "tests/specs/test_seed_001.py::test_seed001_20_a_file_that_cannot_be_removed_is_an_error_and_stays",
        ),
    ),
    Mutant(
        "001-20",
        "the command hides why",
        "cli/spec_commands.py",
        'told, hint = f"{error}: {plain(name)}", _HINTS[error]',
        'told, hint = f"cannot do that: {plain(name)}", _HINTS[error]',
        (
            "tests/specs/test_seed_001.py::test_seed001_20_the_texts_of_the_errors_reach_the_command_line",
        ),
    ),
    Mutant(
        "001-20",
        "another machine's lock ends with the code of a refusal",
        "specs/errors.py",
        "class SpecNotOwnedError(Lost):",
        "class SpecNotOwnedError(Refused):",
        (
            "tests/specs/test_seed_001.py::test_seed001_20_the_texts_of_the_errors_reach_the_command_line",
        ),
    ),
    Mutant(
        "001-21",
        "a file without an owner is a lock",
        "specs/lockfile_codec.py",
        "if not owner or not machine or",
        "if owner is None or not machine or",
        ("tests/specs/test_spec_files.py::test_a_field_of_the_wrong_kind_makes_it_no_lock",),
    ),
    Mutant(
        "001-21",
        "a timeout that is not a number is accepted",
        "specs/lockfile_codec.py",
        """\
    if isinstance(hours, bool) or not isinstance(hours, int | float) or hours != hours:
        return None
""",
        """\
    if not isinstance(hours, int | float):
        hours = 24
""",
        ("tests/specs/test_spec_files.py::test_a_field_of_the_wrong_kind_makes_it_no_lock",),
    ),
    Mutant(
        "001-21",
        "a file that may not be read means unlocked",
        "specs/spec_locks.py",
        "return LockStatus(spec_name, True, error=PERMISSION_DENIED), None",
        "return LockStatus(spec_name, False, error=PERMISSION_DENIED), None",
        (
            "tests/specs/test_seed_001.py::test_seed001_21_a_file_that_may_not_be_read_is_an_unknown_state",
            "tests/specs/test_seed_001.py::test_seed001_21_the_command_warns_of_an_unknown_state",
            "tests/specs/test_spec_gate.py::test_a_lock_that_may_not_be_read_refuses",
        ),
    ),
    Mutant(
        "001-21",
        "the command does not warn",
        "cli/spec_commands.py",
        "    _warn(all_found)\n",
        "",
        ("tests/specs/test_seed_001.py::test_seed001_21_the_command_warns_of_an_unknown_state",),
    ),
    Mutant(
        "001-21",
        "an agent may write at an unknown place",
        "specs/spec_locks.py",
        "        if not status.locked:\n",
        "        if not status.locked or status.lock is None:\n",
        ("tests/specs/test_spec_gate.py::test_a_lock_that_may_not_be_read_refuses",),
    ),
    Mutant(
        "001-22",
        "a property has only four examples",
        "../../tests/specs/test_seed_001.py",
        "@given(hosts, st.lists(st.integers(0, 10_000), min_size=1, max_size=4))",
        '@given(st.just("pc"), st.lists(st.integers(1, 4), min_size=1, max_size=1))',
        (
            "tests/specs/test_seed_001.py::test_seed001_22_every_property_is_tagged_and_tried_a_hundred_times",
        ),
    ),
    Mutant(
        "001-22",
        "properties are tried fifty times",
        "../../tests/specs/test_seed_001.py",
        "EXAMPLES = 100\n",
        "EXAMPLES = 50\n",
        (
            "tests/specs/test_seed_001.py::test_seed001_22_every_property_is_tagged_and_tried_a_hundred_times",
        ),
    ),
    Mutant(
        "001-22",
        "a property has no tag",
        "../../tests/specs/test_seed_001.py",
        "@tagged(15)\n",
        "@settings(max_examples=EXAMPLES)\n",
        (
            "tests/specs/test_seed_001.py::test_seed001_22_every_property_is_tagged_and_tried_a_hundred_times",
        ),
    ),
    Mutant(
        "001-P2",
        "a lock in the other program's folder is not looked at",
        "specs/spec_locks.py",
        'folders = [f"{root}/{home}/{SPECS}"] if home else specs_folders(root)',
        'folders = [f"{root}/{home}/{SPECS}"] if home else specs_folders(root)[:1]',
        ("tests/specs/test_spec_kse.py::test_a_lock_in_either_folder_refuses",),
    ),
    Mutant(
        "001-P2",
        "a lock counts at once, although another program may be about to write over it",
        "specs/spec_locks.py",
        "patience, pauses = Patience(), _PAUSES if self._settle_seconds else 0",
        "patience, pauses = Patience(), 0",
        (
            "tests/specs/test_spec_locks.py::test_a_program_that_writes_over_our_lock_has_it_and_we_do_not",
        ),
    ),
    Mutant(
        "001-P10",
        "each workspace has an id of its own",
        "specs/machine.py",
        "        return next(self._ours(), self._user)",
        "        return next(self._ours(), self._beside[0])",
        (
            "tests/specs/test_spec_machines.py::test_the_id_is_the_users_in_every_workspace_and_nothing_is_written_beside_the_specs",
        ),
    ),
    Mutant(
        "001-P9",
        "an id from an earlier version is not recognised",
        "specs/machine.py",
        "for one in (*self._ours(), self._user))",
        "for one in [self._used()])",
        ("tests/specs/test_spec_machines.py::test_locks_with_any_id_of_this_machine_are_its_own",),
    ),
]
