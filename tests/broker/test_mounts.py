"""Detection of a repository that can be reached through another mount."""

from __future__ import annotations

import pytest

from holdfast.gate.broker.places.mounts import aliases

_ROOT = "25 1 8:1 / / rw - ext4 /dev/sda1 rw"
_HOME = "26 25 8:2 / /home rw - ext4 /dev/sda2 rw"


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ([], []),
        (["30 25 8:2 /me/repo /mnt/alias rw - ext4 /dev/sda2 rw"], ["/mnt/alias"]),
        (["30 25 8:2 / /mnt/home rw - ext4 /dev/sda2 rw"], ["/mnt/home/me/repo"]),
        (["30 25 8:2 /me /mnt/me\\040too rw - ext4 /dev/sda2 rw"], ["/mnt/me too/repo"]),
        (["30 25 8:2 /me/repo/sub /mnt/part rw - ext4 /dev/sda2 rw"], ["/mnt/part"]),
        (["30 26 8:2 /me/repo/sub /home/me/repo/sub rw - ext4 /dev/sda2 rw"], []),
        (
            ["30 26 8:2 /me/repo/sub /home/me/repo/too rw - ext4 /dev/sda2 rw"],
            ["/home/me/repo/too"],
        ),
        (["30 25 8:2 /other /mnt/other rw - ext4 /dev/sda2 rw"], []),
        (["30 25 8:2 /me/repository /mnt/other rw - ext4 /dev/sda2 rw"], []),
        (["30 25 8:1 / /mnt/root rw - ext4 /dev/sda1 rw"], []),
        (["30 26 8:2 /me/repo /home/me/repo rw - ext4 /dev/sda2 rw"], []),
    ],
)
def test_another_mount_of_the_same_folder_is_found(more: list[str], found: list[str]) -> None:
    assert aliases("/home/me/repo", [_ROOT, _HOME, *more]) == found


def test_a_repository_on_the_root_is_found_too() -> None:
    lines = [_ROOT, "30 25 8:1 / /mnt/root rw - ext4 /dev/sda1 rw"]
    assert aliases("/srv/repo", lines) == ["/mnt/root/srv/repo"]
