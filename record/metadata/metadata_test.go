package metadata

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

func TestVariables(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]string{
		"": "",
		"PATH=/bin RANK=1 HOME=/root AWS_SECRET_ACCESS_KEY=x WORLD_SIZE=2 RANK_TOKEN=x": "RANK=1 WORLD_SIZE=2",
		"RANK= CI=true": "CI=true",
		"GITHUB_ACTIONS=true GITHUB_SHA=ab GITHUB_TOKEN=ghs_x ACTIONS_RUNTIME_TOKEN=x": "GITHUB_ACTIONS=true GITHUB_SHA=ab",
		"JOB_NAME=mine BUILD_ID=7":                           "", // not of Jenkins
		"JOB_NAME=mine BUILD_ID=7 JENKINS_URL=https://ci/j/": "BUILD_ID=7 JENKINS_URL=https://ci/j/ JOB_NAME=mine",
		"BUILDKITE=true BUILDKITE_REPO=https://u:secret@host/x.git?token=y BUILDKITE_AGENT_ACCESS_TOKEN=x": "BUILDKITE=true BUILDKITE_REPO=https://host/x.git",
		"GITLAB_CI=1 CI_JOB_TOKEN=x CI_REPOSITORY_URL=https://gitlab-ci-token:x@h/r CI_JOB_ID=3":           "CI_JOB_ID=3 GITLAB_CI=1",
		"SLURM_PROCID=0 SLURM_JWT=x": "SLURM_PROCID=0",
		"odd RANK=5":                 "RANK=5",
	} {
		if got := strings.Join(Variables(strings.Fields(environment)), " "); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", environment, got, want)
		}
	}
	long := Variables([]string{"RANK=" + strings.Repeat("ä", maxValue)})
	if len(long) != 1 || !strings.HasSuffix(long[0], "ä...") || len(long[0]) != len("RANK=...")+maxValue {
		t.Errorf("%d bytes", len(long[0]))
	}
}

// No listed name is one by which secrets go, and none is listed twice.
func TestNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, g := range Groups {
		for _, name := range g.Names {
			for _, bad := range []string{"TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL", "AUTH", "JWT", "COOKIE", "SIGNATURE"} {
				if strings.Contains(name, bad) && name != "BUILDKITE_STEP_KEY" {
					t.Errorf("%s may be a secret", name)
				}
			}
			if seen[name] {
				t.Errorf("%s is listed twice", name)
			}
			seen[name] = true
		}
		if g.If != "" && !seen[g.If] {
			t.Errorf("%s is not in its own group", g.If)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		"a@b":                              "a@b",
		"git@github.com:o/r.git":           "git@github.com:o/r.git",
		"https://host/p@th?x=y@z":          "https://host/p@th?x=y@z",
		"https://user@host/x":              "https://host/x",
		"ssh://git:p@ss@host:22/x":         "ssh://host:22/x",
		"--db=postgres://u:p@h/x --s a@b":  "--db=postgres://h/x --s a@b",
		"http://a\x00b@c":                  "http://a\x00b@c",
		"x http://a:b@c http://d:e@f/g@h?": "x http://c http://f/g@h?",
		"git+https://token@host/r":         "git+https://host/r",
	} {
		if got := WithoutCredentials(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for url, want := range map[string]string{"https://h/x?token=y": "https://h/x", "https://h/x#y": "https://h/x", "": ""} {
		if got := WithoutQuery(url); got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}

const (
	revisionA = "0123456789abcdef0123456789abcdef01234567"
	revisionB = "89abcdef0123456789abcdef0123456789abcdef"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "ROOT", root)), 0o600))
	}
	return root
}

func TestGit(t *testing.T) {
	t.Parallel()
	const config = "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = no\n[remote \"origin\"]\n\turl = https://me:secret@host/r.git\n[branch \"x\"]\n\turl = no\n"
	for name, test := range map[string]struct {
		files  map[string]string
		folder string
		want   Commit
	}{
		"no repository": {map[string]string{"a/b": ""}, "a", Commit{}},
		"a branch, from a folder below": {map[string]string{".git/HEAD": "ref: refs/heads/topic/x\n", ".git/refs/heads/topic/x": revisionA + "\n", ".git/config": config, "a/b/c": ""},
			"a/b", Commit{revisionA, "topic/x", "https://host/r.git"}},
		"a packed branch": {map[string]string{".git/HEAD": "ref: refs/heads/main\n",
			".git/packed-refs": "# pack-refs with: peeled\n" + revisionB + " refs/heads/mainline\n" + revisionA + " refs/heads/main\n^" + revisionB + "\n"},
			".", Commit{revisionA, "main", ""}},
		"a detached head": {map[string]string{".git/HEAD": revisionB + "\n"}, ".", Commit{Revision: revisionB}},
		"no commit yet":   {map[string]string{".git/HEAD": "ref: refs/heads/main\n"}, ".", Commit{Branch: "main"}},
		"a working tree beside the first": {map[string]string{"w/.git": "gitdir: ROOT/r/.git/worktrees/w\n", "r/.git/worktrees/w/HEAD": "ref: refs/heads/w\n",
			"r/.git/worktrees/w/commondir": "../..\n", "r/.git/refs/heads/w": revisionA, "r/.git/config": config},
			"w", Commit{revisionA, "w", "https://host/r.git"}},
		"a submodule": {map[string]string{"sub/.git": "gitdir: ../.git/modules/sub\n", ".git/HEAD": revisionB, ".git/modules/sub/HEAD": revisionA},
			"sub", Commit{Revision: revisionA}},
		"a reference that leads elsewhere": {map[string]string{".git/HEAD": "ref: refs/../../secret\n", "secret": revisionA}, ".", Commit{}},
		"not a revision":                   {map[string]string{".git/HEAD": "root:x:0:0\n"}, ".", Commit{}},
	} {
		goldentest.Same(t, test.want, Git(filepath.Join(tree(t, test.files), test.folder), nil), "%s", name)
	}
	if got := Git("relative", nil); got != (Commit{}) {
		t.Errorf("%+v", got)
	}
}

// Neither what belongs to somebody else nor what is no plain file is read.
func TestForeignRepository(t *testing.T) {
	t.Parallel()
	own, other := uint32(os.Getuid()), uint32(os.Getuid()+1)
	root := tree(t, map[string]string{".git/HEAD": revisionA})
	if got := Git(root, &own); got.Revision != revisionA {
		t.Errorf("%+v", got)
	}
	if got := Git(root, &other); got != (Commit{}) {
		t.Errorf("%+v", got)
	}
	must.Do(t, unix.Mkfifo(filepath.Join(root, ".git/config"), 0o600))
	if got := Git(root, nil); got.Remote != "" {
		t.Errorf("%+v", got)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Wed Oct  1 00:00:00 UTC 2026\nGCC version: gcc 12.2.0\n":            "580.159.04",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build  (dvs-builder)  Sat May 24 2026\nGCC version": "575.57.08",
		"NVRM version: NVIDIA UNIX aarch64 Kernel Module  550.54  x\n":                                                                   "550.54",
		"":                             "",
		"GCC version:\n 580.159.04 \n": "",
	} {
		if got := DriverRelease(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	mapped := []string{"/usr/bin/python3", "/x/nvidia/cu13/lib/libcudart.so.13", "/x/lib/libnccl.so.2", "/y/libcudart.so.12.4.127"}
	for library, want := range map[string]string{"libcudart": "13", "libnccl": "2", "libcuda": "", "python3": ""} {
		if got := Version(mapped, library); got != want {
			t.Errorf("%s: %q, want %q", library, got, want)
		}
	}
}
