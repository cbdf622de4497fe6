package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// deny are the words of testdata/sim/prog/sandbox.h by which system calls fail.
func deny(errno unix.Errno, calls ...uintptr) string {
	return fmt.Sprintf("sandbox=error=%d%s", errno, callNumbers(calls))
}

// kill are the words by which system calls kill the process.
func kill(calls ...uintptr) string { return "sandbox=kill" + callNumbers(calls) }

func callNumbers(calls []uintptr) string {
	var b strings.Builder
	for _, nr := range calls {
		fmt.Fprintf(&b, ",%d", nr)
	}
	return b.String()
}

func unshare(flags int) string { return fmt.Sprintf("unshare=%#x", flags) }

var (
	networkCalls = []uintptr{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_SENDTO, unix.SYS_SENDMSG,
		unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_SHUTDOWN}
	fileCalls    = []uintptr{unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_MEMFD_CREATE, unix.SYS_PIPE2}
	processCalls = []uintptr{unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_EXECVE, unix.SYS_PTRACE, unix.SYS_KILL, unix.SYS_TGKILL}
)

// A hostileProgram makes itself hard to record.
type hostileProgram struct {
	name    string
	actions string // of testdata/sim/prog/hostile.c
	lossy   bool   // records may be missing, which is said
}

// unasked reports whether nothing notices the program's end in time without probes: it has work that may be missing then.
func (h hostileProgram) unasked() bool {
	return strings.Contains(h.actions, "end=_exit") || strings.Contains(h.actions, "work exec") || strings.Contains(h.actions, "close exec")
}

// alone reports whether the program has a recording of its own: one that may lack records, one that cannot print its launches, or a
// daemon, beside which the next program would run.
func (h hostileProgram) alone() bool {
	return h.lossy && !h.unreached() || strings.Contains(h.actions, "close=0") || strings.Contains(h.actions, "daemon")
}

// unreached reports whether the injected library does not reach the recorder, in one mode as in the other: it knows of
// none.
func (h hostileProgram) unreached() bool {
	return slices.Contains([]string{"fill", "nofile-3-first", "kill-network-first", "user-first"}, h.name)
}

// hostile are programs by what they do. Those of a subject run one after the other in one recording, and so do those of
// all subjects that cannot be asked for their last records without probes, and those that do not reach the recorder.
var hostile = []struct {
	subject  string
	programs []hostileProgram
}{
	{"descriptors", []hostileProgram{
		{"nothing", "work end", false},
		{"close", "work close work end", false},
		{"close-first", "close work end", false},
		{"close-standard", "work close=0 work end", false},
		{"reuse", "work reuse work end", false},
		{"overwrite", "work overwrite work end", false},
		{"fill", "fill work end", true},
		{"fill-later", "work fill work end", false},
		{"shut", "work shut work end", false},
		{"block", "work block work end", false},
		{"garble", "work garble work end", false},
	}},
	{"limits", []hostileProgram{
		{"nofile-0", "work limit=nofile:0 work end", false},
		{"nofile-1", "work limit=nofile:1 work end", false},
		{"nofile-3-first", "limit=nofile:3 work end", true},
		{"nofile-_exit", "work limit=nofile:0 launch end=_exit", false},
		{"nofile-term", "work limit=nofile:0 launch end=15", false},
		{"address-space", "work limit=as:1 work end", true},
		{"data", "work limit=data:0 work end", true},
		{"file-size", "work limit=fsize:0 work end", false},
		{"processes", "limit=nproc:0 work end", false},
		{"stack", "work limit=stack:65536 work end", false},
		{"core", "work limit=core:0 end=segv", false},
		{"locked", "work limit=memlock:0 work end", false},
		{"pending-signals", "work limit=sigpending:0 launch end=15", false},
	}},
	// A sandbox that kills for a call shows that none is made, so that none can fail either.
	{"sandboxes", []hostileProgram{
		{"deny-poll-first", deny(unix.EPERM, pollCalls...) + " work end", false},
		{"deny-memory", "work " + deny(unix.ENOMEM, unix.SYS_MMAP, unix.SYS_BRK, unix.SYS_MUNMAP) + " work end", true},
		{"deny-identity", "work " + deny(unix.EPERM, unix.SYS_GETPID, unix.SYS_GETTID) + " work end", false},
		{"deny-signals", "work " + deny(unix.EPERM, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK) + " work end", false},
		{"deny-default-action", "work " + deny(unix.EPERM, unix.SYS_RT_SIGACTION) + " launch end=15", false},
		{"deny-raise", "work " + deny(unix.EPERM, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_TGKILL) + " launch end=15", false},
		{"kill-network", "work " + kill(networkCalls...) + " work end", false},
		{"kill-network-first", kill(networkCalls...) + " work end", true},
		{"kill-network-_exit", "work " + kill(networkCalls...) + " launch end=_exit", false},
		{"kill-network-term", "work " + kill(networkCalls...) + " launch end=15", false},
		{"kill-poll", "work " + kill(pollCalls...) + " work end", false},
		{"kill-files", "work " + kill(fileCalls...) + " work end", false},
		{"kill-processes", "work " + kill(processCalls...) + " work end", false},
		{"kill-for-what-it-does", "work " + kill(unix.SYS_GETPPID, unix.SYS_CHROOT) + " work chroot=/ end", true},
		{"strict-child", "work fork=strict work end", false},
	}},
	{"namespaces", []hostileProgram{
		{"user-namespace", unshare(unix.CLONE_NEWUSER) + " work end", false},
		{"mount-namespace", unshare(unix.CLONE_NEWNS) + " work end", false},
		{"network-namespace", "work " + unshare(unix.CLONE_NEWNET) + " work end", false},
		{"ipc-uts-namespaces", "work " + unshare(unix.CLONE_NEWIPC|unix.CLONE_NEWUTS) + " work end", false},
		{"pid-namespace", unshare(unix.CLONE_NEWPID) + " daemon work end", false},
		{"chroot", "work chroot=/proc work end", false},
	}},
	{"forks", []hostileProgram{
		{"fork-exit", "work fork=exit work end", false},
		{"fork-crash", "work fork=crash work end", false},
		{"fork-raw", "work fork=raw work end", false},
		{"fork-work", "work fork=work work end", false},
		{"fork-exec", "work fork=exec vfork work end", false},
		{"daemon", "daemon work fork=exit end", false},
	}},
	{"other-programs-users-and-tracers", []hostileProgram{
		{"exec", "work exec work end", false},
		{"exec-closed", "work close exec work end", false},
		{"exec-fails", "work umask chroot=/proc exec shut work end", false},
		{"exec-clean", "work exec=clean end", false},
		{"user", "work user=65534 work end", false},
		{"user-first", "user=65534 work end", true},
		{"not-dumpable", "work prctl=4:0 work end", false},
		{"no-new-privileges", "prctl=38:1 work end", false},
		{"traced", "traced work end", false},
		{"traced-calls", "traced=1 work end", false},
		{"traced-signal", "traced launch end=15", false},
		{"traced-_exit", "traced launch end=_exit", true},
		{"traced-quick", "traced launch end=quick", false},
	}},
	{"signals-and-surroundings", []hostileProgram{
		{"masked", "mask work end", false},
		{"masked-abort", "mask work end=abort", false},
		{"ignored", "ignore work end", false},
		{"own-urgent", "handle=23 launch end=_exit", false},
		{"own-urgent-later", "work handle=23 raise=23 handle=15 raise=15 work raise=23 end", false},
		{"awaited", "await=23 await=15 work await=23 signalfd=23 await=15 signalfd=15 work end", false},
		{"awaited-later", "work await=23 signalfd=23 work end", false},
		// In a user namespace of its own, so that the signals queued to other processes of the user do not count.
		{"status", unshare(unix.CLONE_NEWUSER) + " status work status wait fork=status fork=again handle=10 status mask status work status end", false},
		{"status-of-few", unshare(unix.CLONE_NEWUSER) + " limit=sigpending:9 status work status wait fork=again end", false},
		{"storm", "storm work=300 calm end", false},
		{"stopped", "work stop work end", false},
		{"no-folder", "lose-folder work end", false},
		{"no-environment", "work clear-environment work end", false},
		{"no-permissions", "umask work end", false},
	}},
}

// TestHostile records the programs above: each prints and returns what it does unrecorded, and the log has
// everything, or says that it has not.
func TestHostile(t *testing.T) {
	t.Parallel()
	together := map[string][]hostileProgram{}
	for _, h := range hostile {
		for _, p := range h.programs {
			name := h.subject
			switch {
			case p.alone():
				name = p.name
			case p.unasked():
				name = "unasked"
			case p.unreached():
				name = "unreached"
			}
			together[name] = append(together[name], p)
		}
	}
	for name, programs := range together {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recordHostile(t, programs...)
		})
	}
}

// recordHostile records programs together. If that goes wrong, or the machine is too busy for so many, it records each by itself.
func recordHostile(t *testing.T, programs ...hostileProgram) {
	t.Helper()
	command := []string{sim("hostile")}
	if len(programs) == 1 {
		command = append(command, strings.Fields(programs[0].actions)...)
	} else {
		var script strings.Builder
		for _, p := range programs {
			fmt.Fprintf(&script, "echo %s; %s %s; echo returned $?\n", p.name, command[0], p.actions)
		}
		command = []string{"sh", "-c", script.String()}
	}
	unrecorded, wantCode := runHostile(t, command[0], command[1:]...)
	for _, calls := range []string{"uprobe", "cupti"} {
		if calls == "cupti" && programs[0].unreached() {
			return
		}
		base := filepath.Join(t.TempDir(), "run")
		record := append([]string{"record", "--no-convert", "--calls", calls, "-o", base}, command...)
		out, code := runHostile(t, "cudatrace", record...)
		// A machine that is too busy for the recorder to answer or to probe in time has another try.
		for try := 1; try < 5 && tooBusy.MatchString(out.stderr); try++ {
			out, code = runHostile(t, "cudatrace", record...)
		}
		busy := len(programs) > 1 && tooBusy.MatchString(out.stderr)
		if !busy {
			if diff := cmp.Diff(unrecorded.stdout, out.stdout); diff != "" || code != wantCode {
				t.Errorf("--calls %s: it returned %d, unrecorded %d (-unrecorded +recorded):\n%s%s", calls, code, wantCode, diff, out.stderr)
			}
			checkHostile(t, base+".cudatrace", out, programs[0].lossy || programs[0].unasked() && calls == "cupti")
		}
		if busy || t.Failed() && len(programs) > 1 {
			for _, p := range programs {
				t.Run(p.name, func(t *testing.T) { recordHostile(t, p) })
			}
			return
		}
	}
}

// TestLies has a process say that each of 512 threads is in a call, and end by SIGKILL: what cannot be is not recorded. What may be
// is the process's own, in the time in which it was recorded, with the name of a function of the driver.
func TestLies(t *testing.T) {
	t.Parallel()
	r := recordExit(t, 137, "--calls", "cupti", sim("hostile"), "work", "lie")
	want := map[int]bool{}
	for thread := 0; thread < 512; thread += 16 {
		want[thread] = true    // as the library would say it
		want[thread+12] = true // in an epoch that has not begun
	}
	open := regexp.MustCompile(`^api pid=(\d+) tid=(\d+) domain=driver cbid=0 name=(\w+) start=([-\d.]+)s dur=0ns .* flags=unfinished$`)
	n := 0
	for line := range strings.Lines(r.dump(t)) {
		line = strings.TrimSpace(line)
		found := open.FindStringSubmatch(line)
		if found == nil {
			if strings.Contains(line, "unfinished") {
				t.Errorf("not as an open call: %s", line)
			}
			continue
		}
		pid, _ := strconv.Atoi(found[1])
		thread, _ := strconv.Atoi(found[2])
		start, err := strconv.ParseFloat(found[4], 64)
		if thread -= 1000000; !want[thread] || uint32(pid) != r.ProcessList[0].PID || found[3] != "cuStreamSynchronize" || err != nil || start < 0 || start > float64(r.DurationNS)/1e9 {
			t.Errorf("lie %d: %s", thread%16, line)
		}
		delete(want, thread)
		n++
	}
	if n != 64 || len(want) != 0 || r.Unfinished != 64 || lostWork(&r.Summary) != 0 || len(r.ProcessList) != 1 || r.CUDANS > r.DurationNS {
		t.Errorf("%d open calls, not said of %v; %d unfinished, lost %v, %d ns of CUDA in %d", n, want, r.Unfinished, r.Lost, r.CUDANS, r.DurationNS)
	}
	if hangs := strings.Count(r.stderr, "hang: thread 1000000 of process "); hangs > 1 {
		t.Errorf("one thread hangs %d times:\n%s", hangs, r.stderr)
	}
}

var tooBusy = regexp.MustCompile("the recorder did not answer them in time|there was no time to probe all processes")

type hostileOutput struct{ stdout, stderr string }

func runHostile(t *testing.T, program string, args ...string) (hostileOutput, int) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, cmd.Start())
	timer := time.AfterFunc(5*time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	_ = cmd.Wait() // the exit code says it
	return hostileOutput{stdout.String(), stderr.String()}, exitStatusOf(cmd.ProcessState)
}

// checkHostile holds a log against the kernels that the program says it launched.
func checkHostile(t *testing.T, log string, out hostileOutput, lossy bool) {
	t.Helper()
	var launched uint64
	counted := false
	for line := range strings.Lines(out.stdout) {
		var n uint64
		if _, err := fmt.Sscanf(line, "counts kernels=%d", &n); err == nil {
			launched, counted = launched+n, true
		}
	}
	var r recording
	info, code := infoJSON(log)
	if err := json.Unmarshal(info, &r.Summary); err != nil {
		if !lossy || !strings.Contains(out.stderr, "cudatrace: ") {
			t.Errorf("there is no log (exit code %d):\n%s", code, out.stderr)
		}
		return
	}
	lost := lostWork(&r.Summary)
	if r.Complete && counted && r.Kernels != launched || !r.Complete && len(r.Reasons) == 0 && lost == 0 {
		t.Errorf("%d kernels of %d, complete %t, lost %v, reasons %q\n%s", r.Kernels, launched, r.Complete, r.Lost, r.Reasons, out.stderr)
	}
	if !lossy && (!r.Complete || r.Damaged) {
		t.Errorf("%d kernels of %d are there, lost %v, reasons %q\n%s", r.Kernels, launched, r.Lost, r.Reasons, out.stderr)
	}
}
