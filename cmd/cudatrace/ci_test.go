package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCI runs the commands of docs/ci.md: the loop, both jobs, one of
// them on the main branch and for a change with a fault, and the commands that fetch and open a run.
func TestCI(t *testing.T) {
	t.Parallel()
	text := readRepository(t, "docs/ci.md")
	blocks := codeBlocks(text)
	r := newRunner(t, blocks[0])
	if out, code := r.run(blocks[1]); code != 0 || !strings.Contains(out, "nothing differs") {
		t.Errorf("both versions in one job: exit code %d\n%s", code, out)
	}
	if summary := r.github(githubSteps(t, blocks[2])); !strings.Contains(summary, "0 of 4 conditions failed") {
		t.Errorf("job summary: %s", summary)
	}
	if out, code := r.run(blocks[3]); code != 0 {
		t.Errorf("fetch and open: exit code %d\n%s", code, out)
	}
	if out, code := r.run(r.gitlab("push", gitlabScript(t, blocks[4]))); code != 0 {
		t.Errorf("GitLab, main branch: exit code %d\n%s", code, out)
	}
	more := filepath.Join(t.TempDir(), "app") // what the base does, and other work
	if err := os.WriteFile(more, []byte("#!/bin/sh\n"+sim("vectoradd")+" && exec "+sim("many")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.program(more, 1)
	out, code := r.run(r.gitlab("merge_request_event", gitlabScript(t, blocks[4])))
	junit := r.read("junit.xml")
	if code != exitHolds || !strings.Contains(out, "3 of 4 conditions failed") || !strings.Contains(junit, `failures="3" errors="0"`) {
		t.Errorf("GitLab, a fault: exit code %d\n%s%s", code, out, junit)
	}
	if out, code := r.run(blocks[5]); code != 0 {
		t.Errorf("fetch and open: exit code %d\n%s", code, out)
	}
	if len(blocks) != 6 {
		t.Errorf("docs/ci.md has %d blocks of code", len(blocks))
	}
}

// codeBlocks are the blocks of code of a page.
func codeBlocks(text string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// standIns are the commands of CI that a test must not run, in a shell's words. sudo records the
// program REAL times, and then takes these recordings by turns.
var standIns = map[string]string{
	"cudatrace": `if [ "$1" = open ]; then "$CUDATRACE" help open >/dev/null && test -s "$2"; else exec "$CUDATRACE" "$@"; fi`,
	"git":       `test "$*" = "worktree add --detach main HEAD^1" && mkdir main`,
	"make":      `if [ "$1" = -C ]; then cd "$2"; shift 2; fi; test "$*" = app && printf '#!/bin/sh\nexec "%s"\n' "$PROGRAM" >app && chmod +x app`,
	"sudo": `n=$(cat "$CACHE/n" 2>/dev/null || echo 0); echo $((n + 1)) >"$CACHE/n"; at="$CACHE/$((n % REAL))"
if [ "$n" -lt "$REAL" ]; then "$@" >&2 || exit; for kind in cudatrace pftrace; do cp "$5.$kind" "$at.$kind"; done; exit; fi
mkdir -p "$(dirname "$5")"; for kind in cudatrace pftrace; do cp "$at.$kind" "$5.$kind"; done`,
	"gh":   `case "$1 $2" in "run download") test "$4 $6" = "--name --dir" && cp -r "$STORE/$5" "$7" ;; *) exit 9 ;; esac`,
	"glab": `test "$1 $2 $4" = "job artifact performance" && cp -r "$STORE/runs" .`,
	"curl": `while [ $# -gt 1 ]; do case "$1" in --output) cp "$STORE/package" "$2" || exit; shift ;; --upload-file) cp "$2" "$STORE/package" || exit; shift ;; --header) shift ;; esac; shift; done`,
}

// A runner runs jobs in folders of their own, with stand-ins.
type runner struct {
	*testing.T
	folder string // of the last job
	store  string // of artifacts
	budget string
	env    []string
}

func newRunner(t *testing.T, budget string) *runner {
	t.Helper()
	r := &runner{T: t, store: t.TempDir(), budget: budget}
	cudatrace, err := exec.LookPath("cudatrace")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, script := range standIns {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.env = append(os.Environ(), "CUDATRACE="+cudatrace, "STORE="+r.store, "PATH="+bin+":"+os.Getenv("PATH"), "CI_JOB_TOKEN=x",
		"BASELINE=https://gitlab.example/api/v4/stats.tar", "BRANCH=main", "GH_TOKEN=x")
	r.program(sim("vectoradd"), 5)
	return r
}

// program chooses the program of the next jobs, which is recorded as often as real says.
func (r *runner) program(path string, real int) {
	r.env = append(r.env, "PROGRAM="+path, "CACHE="+r.TempDir(), "REAL="+string(rune('0'+real)))
	r.job()
}

// job begins a job: an empty folder with the budget and both programs.
func (r *runner) job() {
	r.folder = r.TempDir()
	if err := os.WriteFile(filepath.Join(r.folder, "gpu.budget"), []byte(r.budget), 0o644); err != nil {
		r.Fatal(err)
	}
	if out, code := r.run("make app; cp app app-of-main"); code != 0 {
		r.Fatal(out)
	}
}

// run runs a script, as CI does.
func (r *runner) run(script string) (output string, code int) {
	cmd := exec.Command("bash", "-e", "-c", script)
	cmd.Dir = r.folder
	cmd.Env = append(r.env, "GITHUB_STEP_SUMMARY="+filepath.Join(r.folder, "summary.md"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		r.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// read returns a file of the last job.
func (r *runner) read(name string) string {
	text, err := os.ReadFile(filepath.Join(r.folder, name))
	if err != nil && !os.IsNotExist(err) {
		r.Fatal(err)
	}
	return string(text)
}

// github runs the steps of a job, and returns its summary.
func (r *runner) github(steps []map[string]string) (summary string) {
	r.job()
	for _, s := range steps {
		switch {
		case strings.HasPrefix(s["uses"], "actions/upload-artifact@"):
			if err := os.CopyFS(filepath.Join(r.store, s["name"]), os.DirFS(filepath.Join(r.folder, s["path"]))); err != nil {
				r.Fatal(err)
			}
		case s["run"] != "":
			if out, code := r.run(s["run"]); code != 0 {
				r.Errorf("GitHub, %s: exit code %d\n%s", s["name"], code, out)
			}
		}
	}
	return r.read("summary.md")
}

// gitlab begins a job, and returns its script for a source of pipelines.
func (r *runner) gitlab(source, script string) string {
	r.job()
	return "CI_PIPELINE_SOURCE=" + source + "\n" + script
}

// githubSteps are the steps of a job: their keys, and those within them.
func githubSteps(t *testing.T, yaml string) (steps []map[string]string) {
	t.Helper()
	_, yaml, ok := strings.Cut(yaml, "    steps:\n")
	if !ok {
		t.Fatal("the job has no steps")
	}
	for _, block := range strings.Split("\n"+yaml, "\n      - ")[1:] {
		step := make(map[string]string)
		block, run, _ := strings.Cut(block, "run: |\n")
		step["run"] = strings.ReplaceAll("\n"+run, "\n          ", "\n")
		for line := range strings.Lines(block) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				step[key] = value
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// gitlabScript is the script of a job.
func gitlabScript(t *testing.T, yaml string) string {
	t.Helper()
	_, yaml, ok := strings.Cut(yaml, "  script:")
	script, _, _ := strings.Cut(yaml, "\n  artifacts:")
	if !ok {
		t.Fatal("the job has no script")
	}
	script = strings.ReplaceAll(script, "\n    - |\n", "\n")
	script = strings.ReplaceAll(script, "\n    - ", "\n")
	return strings.ReplaceAll(script, "\n      ", "\n")
}

// The repository's own workflow calls what README and CONTRIBUTING.md name.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	workflow := readRepository(t, ".github/workflows/ci.yml")
	runs := regexp.MustCompile(`(?m)^ +run: .*\b(make [\w-]+)$`).FindAllStringSubmatch(workflow, -1)
	if len(runs) != strings.Count(workflow, "run: ") || len(runs) != 2 {
		t.Errorf("%q", runs)
	}
	guide := readRepository(t, "README.md") + readRepository(t, "CONTRIBUTING.md")
	for _, m := range runs {
		if !regexp.MustCompile(`(?m)^(\$ )?` + m[1] + ` +#`).MatchString(guide) {
			t.Errorf("no guide names %s", m[1])
		}
	}
}
