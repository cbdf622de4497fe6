package record

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/procfs"
)

const (
	// stragglerInterval is the time between two looks for processes that outlive the program.
	stragglerInterval = 50 * time.Millisecond
	// stragglerGrace is time for a process that outlives the program, such as a daemon, to
	// open the driver. Recording does not wait longer for one that has not.
	stragglerGrace = 2 * time.Second
	// stragglerHint is the time after which a person is told whom recording waits for.
	stragglerHint = time.Second
)

// waitForStragglers returns when no process of the program's tree is left that uses CUDA or
// may be about to.
func waitForStragglers(server *cupti.Server, program string, say func(string)) {
	began, told := time.Now(), false
	for {
		left := stragglers(server)
		users := slices.ContainsFunc(left, usesCUDA)
		waited := time.Since(began)
		if server.Wait(stragglerInterval) == 0 && !users && (len(left) == 0 || waited > stragglerGrace) {
			return
		}
		if waited > stragglerHint && !told {
			told = true
			say(fmt.Sprintf("%s has ended, processes that it started go on (%s); recording until those that use CUDA end, too (Ctrl-C or SIGTERM stops recording)",
				program, processList(left[:min(len(left), 5)])))
		}
	}
}

// stragglers lists the processes of the program's tree that have not ended. The path of the
// injected library in their environment, which is this recording's own, tells them.
func stragglers(server *cupti.Server) []int {
	mark := []byte(server.Environ(nil)[0] + "\x00")
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // no /proc: who is connected is known without it
	}
	var left []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process that has ended has an empty environment.
		if env, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && bytes.Contains(env, mark) {
			left = append(left, pid)
		}
	}
	return left
}

// usesCUDA says whether a process has the driver library mapped.
func usesCUDA(pid int) bool {
	files, err := procfs.Files(pid)
	return err == nil && slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, "/libcuda.so") })
}

// processList names processes for people: "python3 (4711), sh (4712)".
func processList(pids []int) string {
	var words []string
	for _, pid := range pids {
		words = append(words, fmt.Sprintf("%s (%d)", procfs.Name(pid), pid))
	}
	return strings.Join(words, ", ")
}
