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
	// stragglerGrace is the time in which a process that outlives the program, such as a daemon,
	// has to open the driver. Recording does not wait for it any longer.
	stragglerGrace = 2 * time.Second
	// stragglerHint is the time after which a person is told which processes recording waits for.
	stragglerHint = time.Second
)

// waitForStragglers waits until no process of the program's tree uses CUDA or may be about to.
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
			say(fmt.Sprintf("%s has ended, but processes that it started still run (%s); recording goes on until those that use CUDA end (Ctrl-C or SIGTERM stops it)",
				program, processList(left[:min(len(left), 5)])))
		}
	}
}

// stragglers lists the processes of the program's tree that still run: the processes whose
// environment has the path of this recording's injected library.
func stragglers(server *cupti.Server) []int {
	mark := []byte(server.Environ(nil)[0] + "\x00")
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // without /proc, the connected processes are known all the same
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

// processList names processes for a person: "python3 (4711), sh (4712)".
func processList(pids []int) string {
	var words []string
	for _, pid := range pids {
		words = append(words, fmt.Sprintf("%s (%d)", procfs.Name(pid), pid))
	}
	return strings.Join(words, ", ")
}
