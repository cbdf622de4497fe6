package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/doctor"
	"github.com/cudatrace/cudatrace/record/must"
)

// A patient is a command line of doctor, and what is taken away from it.
type patient struct {
	args    []string                    // doctor's; none: a program with all that it needs
	around  []string                    // the command that runs doctor
	env     []string                    // in addition to ours
	attr    syscall.SysProcAttr         // of doctor
	folder  func(*testing.T) string     // where it runs; nil: a new folder
	prepare func(*testing.T, *exec.Cmd) // may change the command

	code     int
	check    string // what is said to be missing
	status   doctor.Status
	found    string // is part of what is said
	calls    string
	noGPU    bool
	optional bool // the machine may not allow it
}

// asRoot maps root of a user namespace to root.
var asRoot = []syscall.SysProcIDMap{{HostID: 0, Size: 1}}

var nobody = syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}

func patients() map[string]patient {
	return map[string]patient{
		"everything": {check: "libcupti", status: doctor.OK, found: "lib/libcupti.so.13", calls: "probes"},
		"static runtime": {args: []string{sim("vectoradd-static")}, check: "runtime", status: doctor.OK, found: "linked into",
			calls: "probes"},
		"no rights": {attr: nobody, folder: openFolder, code: exitPart, check: "probes", status: doctor.Less, found: "CAP_BPF and CAP_PERFMON missing", calls: "cupti"},
		"eBPF is denied": {around: []string{"nobpf"}, code: exitPart, check: "probes", status: doctor.Less,
			found: "a seccomp filter forbids them", calls: "cupti"},
		"user namespace": {attr: syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: asRoot, GidMappings: asRoot},
			optional: true, code: exitPart, check: "probes", status: doctor.Less, found: "in its first user namespace only", calls: "cupti"},
		"files": {around: []string{"sh", "-c", `ulimit -n 40; exec "$@"`, "sh"}, code: exitPart, check: "probes", status: doctor.Less,
			found: "the limit of 40 open files is too low", calls: "cupti"},
		"another tool": {env: []string{"CUDA_INJECTION64_PATH=/opt/other.so"}, code: exitPart, check: "injection", status: doctor.Less,
			found: "CUDA_INJECTION64_PATH=/opt/other.so is set", calls: "probes", noGPU: true},
		// Whatever is in /tmp is hidden: the command and the program are copied to another place first.
		"no folder": {args: []string{"/mnt/sim/bin/vectoradd"}, around: []string{"unshare", "--mount", "sh", "-c",
			`mount -t tmpfs none /mnt && cp "$(command -v "$1")" /mnt/ && cp -r "$0" /mnt/sim && shift || exit 77
			for d in /dev/shm /tmp /var/tmp; do mount -t tmpfs -o noexec none $d || exit 77; done
			unset TMPDIR XDG_RUNTIME_DIR; cd /; exec /mnt/cudatrace "$@"`,
			simStack},
			optional: true, code: exitPart, check: "folder", status: doctor.Less, found: "is mounted noexec", calls: "probes", noGPU: true},
		"no place for the log": {attr: nobody, folder: closedFolder, code: exitFailure, check: "disk", status: doctor.Nothing, found: "no permission in folder", calls: "none", noGPU: true},
		"no libcuda":           {args: []string{"/bin/true"}, code: exitFailure, check: "libcuda", status: doctor.Nothing, found: "programs find no libcuda.so.1", calls: "none", noGPU: true},
		"no libcupti": {prepare: withoutCUPTI, code: exitPart, check: "libcupti", status: doctor.Less,
			found: "no libcupti is found", calls: "probes", noGPU: true},
		"setuid":            {prepare: setuid, code: exitFailure, check: "program", status: doctor.Nothing, found: "raised rights", calls: "none", noGPU: true},
		"another processor": {prepare: foreign, code: exitFailure, check: "program", status: doctor.Nothing, found: "another processor", calls: "none", noGPU: true},
		"script":            {prepare: script, check: "program", status: doctor.OK, found: "a script for " + sim("vectoradd"), calls: "probes"},
		"running process": {args: []string{"-p", fmt.Sprint(os.Getpid())}, code: exitPart, check: "process", status: doctor.Less,
			found: "its GPU work cannot", calls: "probes", noGPU: true},
		"running process without rights": {args: []string{"-p", fmt.Sprint(os.Getpid())}, around: []string{"nobpf"}, code: exitFailure,
			check: "probes", status: doctor.Nothing, found: "seccomp", calls: "none", noGPU: true},
	}
}

// TestDoctor takes away one thing after the other: doctor names it, and its exit code and summary follow.
func TestDoctor(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	for name, p := range patients() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := p.examine(t)
			if p.optional && (out == nil || code == 77) {
				t.Skip("this machine does not allow it")
			}
			var r doctor.Report
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatalf("%v: exit code %d\n%s", err, code, out)
			}
			if code != p.code || r.Calls != p.calls || r.GPUWork == p.noGPU {
				t.Errorf("exit code %d, calls %s, GPU work %t\n%s", code, r.Calls, r.GPUWork, out)
			}
			for _, c := range r.Checks {
				if c.Name == p.check && c.Status == p.status && strings.Contains(c.Found, p.found) {
					return
				}
			}
			t.Errorf("it is not said that %s is %s: %q\n%s", p.check, p.status, p.found, out)
		})
	}
}

// examine runs doctor. It returns nothing where the machine does not allow that.
func (p patient) examine(t *testing.T) (out []byte, code int) {
	args := append(append([]string{}, p.around...), "cudatrace", "doctor", "--format", "json")
	if p.args == nil {
		args = append(args, sim("vectoradd"))
	}
	cmd := exec.Command(args[0], append(args[1:], p.args...)...)
	cmd.Env = append(os.Environ(), p.env...)
	if cmd.Dir = t.TempDir(); p.folder != nil {
		cmd.Dir = p.folder(t)
	}
	attr := p.attr
	cmd.SysProcAttr = &attr
	if attr.Credential != nil {
		cmd.Path = copyOfSelf(t, openFolder(t))
	}
	if p.prepare != nil {
		p.prepare(t, cmd)
	}
	if len(p.around) > 0 && p.around[0] == "nobpf" {
		replaceByPath(t, cmd.Args[1:2])
	}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		if p.optional {
			return nil, 0
		}
		t.Fatal(err)
	}
	if said.Len() > 0 {
		t.Log(said.String())
	}
	return out, cmd.ProcessState.ExitCode()
}

// replaceByPath looks up a command.
func replaceByPath(t *testing.T, name []string) {
	path := must.Get(exec.LookPath(name[0]))(t)
	name[0] = path
}

// closedFolder is a new folder that only root may write to, and every user may enter.
func closedFolder(t *testing.T) string {
	dir := openFolder(t)
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}

// ownProgram makes doctor look at a copy of a program, in a folder of its own.
func ownProgram(t *testing.T, cmd *exec.Cmd, program string) string {
	to := filepath.Join(t.TempDir(), filepath.Base(program))
	copyProgram(t, program, to)
	cmd.Args[len(cmd.Args)-1] = to
	return to
}

// withoutCUPTI is a program that finds libcuda and no libcupti.
func withoutCUPTI(t *testing.T, cmd *exec.Cmd) {
	ownProgram(t, cmd, sim("vectoradd-static"))
	libraries := t.TempDir()
	copyProgram(t, filepath.Join(filepath.Dir(sim("")), "lib/libcuda.so.1"), filepath.Join(libraries, "libcuda.so.1"))
	cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+libraries)
}

func setuid(t *testing.T, cmd *exec.Cmd) {
	must.Do(t, os.Chmod(ownProgram(t, cmd, sim("vectoradd")), 0o755|os.ModeSetuid))
}

// foreign is a program for a processor that no machine of ours has: e_machine 1 of its ELF header.
func foreign(t *testing.T, cmd *exec.Cmd) {
	f := must.Get(os.OpenFile(ownProgram(t, cmd, sim("vectoradd")), os.O_WRONLY, 0))(t)
	defer f.Close()
	must.Get(f.WriteAt([]byte{1, 0}, 18))(t)
}

func script(t *testing.T, cmd *exec.Cmd) {
	path := filepath.Join(t.TempDir(), "train")
	must.Do(t, os.WriteFile(path, []byte("#!/usr/bin/env -S "+sim("vectoradd")+" -x\n"), 0o755))
	cmd.Args[len(cmd.Args)-1] = path
}
