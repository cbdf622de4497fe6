package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestCI runs the commands of docs/ci.md: the loop, both jobs, one of
// them on the main branch and for a change with a fault, and the commands that fetch and open a run.
func TestCI(t *testing.T) {
	t.Parallel()
	text := readRepository(t, "docs/ci.md")
	blocks := codeBlocks(text)
	blocks = slices.Delete(blocks, 2, 3) // TestAction runs the action
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
	must.Do(t, os.WriteFile(more, []byte("#!/bin/sh\n"+sim("vectoradd")+" && exec "+sim("many")+"\n"), 0o755))
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

// actionStandIns are the commands that the action's steps call: gh keeps one comment and the artifacts of one run.
var actionStandIns = map[string]string{
	"gh": `case "$1 $2" in
"run list") test ! -d "$STORE/cudatrace-stats" || echo 7 ;;
"run download") test "$3 $6 $8" = "7 --name --dir" && cp -r "$STORE/$7" "$9" ;;
"api --paginate") test "$3" = repos/o/r/issues/12/comments && if [ -e "$STORE/comment" ]; then echo 99; fi ;;
"api --silent")
	test ! -e "$STORE/readonly" || exit 1
	for last; do :; done; echo "$@" >>"$STORE/calls"; cp "${last#body=@}" "$STORE/comment" ;;
*) exit 9 ;;
esac`,
	"curl": standIns["curl"],
}

// TestAction runs the steps of action.yml, and the script of gitlab.yml: on the main branch, for a change that is no
// worse, for one that is.
func TestAction(t *testing.T) {
	t.Parallel()
	text := readRepository(t, "action.yml")
	inputs := map[string]string{"runs": "1", "token": "x", "options": "--calls cupti"}
	input := regexp.MustCompile(`(?m)^  (\w+):\n    description: .*\n    (?:default: "?([^"\n]*)|required)`)
	for _, m := range input.FindAllStringSubmatch(text, -1) {
		if _, ok := inputs[m[1]]; !ok {
			inputs[m[1]] = m[2]
		}
	}
	if len(inputs) != 7 {
		t.Fatalf("action.yml has the inputs %q", inputs)
	}
	r := &runner{T: t, store: t.TempDir(), budget: "call_count > +5%\n"}
	bin := t.TempDir()
	for name, script := range actionStandIns {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	path := must.Get(filepath.Abs(root))(t)
	environment := slices.Clip(append(os.Environ(), "STORE="+r.store, "PATH="+bin+":"+os.Getenv("PATH")))
	github := slices.Clip(append(environment, "GITHUB_ACTIONS=true", "GITHUB_ACTION_PATH="+path,
		"GITHUB_REPOSITORY=o/r", "GITHUB_WORKFLOW=gpu"))
	gitlab := append(environment, "CI_JOB_TOKEN=x", "CUDATRACE_RUNS=1",
		"CUDATRACE_BASELINE=https://gitlab.example/stats.tar")
	steps := githubSteps(t, strings.ReplaceAll(text, "\n", "\n  "))
	expression := regexp.MustCompile(`\$\{\{ (\S+) \}\}`)
	expand := func(text string) string {
		return expression.ReplaceAllStringFunc(text, func(e string) string {
			name := expression.FindStringSubmatch(e)[1]
			if name == "github.event.pull_request.number" {
				return "12"
			}
			value, ok := inputs[strings.TrimPrefix(name, "inputs.")]
			if !ok {
				t.Errorf("there is no %s", name)
			}
			return value
		})
	}
	action := func(change string) (code int) {
		r.newFolder()
		for _, s := range steps {
			if strings.HasPrefix(s["uses"], "actions/upload-artifact@") {
				from := os.DirFS(filepath.Join(r.folder, expand(s["path"])))
				to := filepath.Join(r.store, expand(s["name"]))
				if change == "" { // the base takes the artifacts of the main branch
					must.Do(t, os.CopyFS(to, from))
				}
				continue
			}
			r.env = append(github, "GITHUB_BASE_REF="+change)
			for name, value := range s {
				if name == strings.ToUpper(name) {
					r.env = append(r.env, name+"="+expand(value))
				}
			}
			var out string
			if out, code = r.run(s["run"]); code != 0 && s["name"] != "Gate" {
				t.Fatalf("%s: exit code %d\n%s", s["name"], code, out)
			}
		}
		return code
	}
	inputs["command"] = sim("vectoradd")
	if code := action(""); code != 0 || r.read("summary.md") != "" {
		t.Errorf("main branch: exit code %d, summary %s", code, r.read("summary.md"))
	}
	if code := action("main"); code != 0 || !strings.Contains(r.read("summary.md"), "0 of 1 condition failed") {
		t.Errorf("no worse: exit code %d, summary %s", code, r.read("summary.md"))
	}
	inputs["command"] = sim("vectoradd") + " && " + sim("many")
	code := action("main")
	comment := contents(t, filepath.Join(r.store, "comment"))
	if code != exitHolds || !strings.Contains(comment, "1 of 1 condition failed") {
		t.Errorf("worse: exit code %d, comment %s", code, comment)
	}
	const calls = "api --silent repos/o/r/issues/12/comments --field body=@cudatrace-ci/diff.md\n" +
		"api --silent --method PATCH repos/o/r/issues/comments/99 --field body=@cudatrace-ci/diff.md\n"
	if got := contents(t, filepath.Join(r.store, "calls")); got != calls {
		t.Errorf("gh is called as %s", got)
	}
	must.Do(t, os.WriteFile(filepath.Join(r.store, "readonly"), nil, 0o644))
	if code := action("main"); code != exitHolds {
		t.Errorf("worse, and the token may not write: exit code %d", code)
	}

	r.newFolder()
	out, code := r.run(`logs=$GITHUB_ACTION_PATH/testdata/gpu/logs/ranks
		mkdir -p cudatrace-ci/base cudatrace-ci/stats
		cudatrace stats $logs/loader-rank3.cudatrace --format json >cudatrace-ci/base/run1.json
		cudatrace stats $logs/kernel-rank3.cudatrace --format json >cudatrace-ci/stats/run1.json
		bash "$GITHUB_ACTION_PATH/packaging/ci.sh" compare`)
	if diff := r.read("cudatrace-ci/diff.md"); !strings.Contains(diff, "\nstep time: 11.2 ms → 4.49 ms (-59.9 %)") {
		t.Errorf("committed logs: exit code %d\n%s%s", code, out, diff)
	}

	_, script, _ := strings.Cut(readRepository(t, "packaging/gitlab.yml"), "  script:\n    - ci=")
	script, _, _ = strings.Cut(script, "\n  artifacts:")
	_, script, _ = strings.Cut(script, "\n")
	script = "ci=" + path + "/packaging/ci.sh\n" + strings.ReplaceAll("\n"+script, "\n    - ", "\n")
	for _, c := range []struct {
		target, command string
		code            int
	}{{"", sim("vectoradd"), 0}, {"main", sim("vectoradd"), 0}, {"main", inputs["command"], exitHolds}} {
		r.newFolder()
		r.env = append(gitlab, "CI_MERGE_REQUEST_TARGET_BRANCH_NAME="+c.target, "CUDATRACE_COMMAND="+c.command)
		out, code := r.run(script)
		junit := r.read("cudatrace-ci/junit.xml")
		if code != c.code || (c.target != "") != strings.Contains(junit, "<testsuite") {
			t.Errorf("GitLab, %+v: exit code %d, want %d\n%s%s", c, code, c.code, out, junit)
		}
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
	cudatrace := must.Get(exec.LookPath("cudatrace"))(t)
	bin := t.TempDir()
	for name, script := range standIns {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
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

// newFolder begins a job in an empty folder with the budget.
func (r *runner) newFolder() {
	r.folder = r.TempDir()
	must.Do(r, os.WriteFile(filepath.Join(r.folder, "gpu.budget"), []byte(r.budget), 0o644))
}

// job begins a job: with the budget and both programs.
func (r *runner) job() {
	r.newFolder()
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
			must.Do(r, os.CopyFS(filepath.Join(r.store, s["name"]), os.DirFS(filepath.Join(r.folder, s["path"]))))
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
