package record

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/procfs"
)

const (
	// leftInterval is how often processes that outlive the program are looked for.
	leftInterval = 50 * time.Millisecond
	// leftGrace is time for a process that outlives the program, a daemon for
	// instance, to open the driver: whoever has not by then is not waited for.
	leftGrace = 2 * time.Second
	// leftWords is when a person is told what is still waited for.
	leftWords = time.Second
)

// waitForRest returns when no process of the program's tree is left that uses CUDA
// or may be about to. Processes of the tree are known by the library's path in
// their environment, which is this recording's own.
func (r *recorder) waitForRest() {
	began, told := time.Now(), false
	for {
		left := r.left()
		users := slices.ContainsFunc(left, usesCUDA)
		waited := time.Since(began)
		if r.server.Wait(leftInterval) == 0 && !users && (len(left) == 0 || waited > leftGrace) {
			return
		}
		if waited > leftWords && !told {
			told = true
			r.opts.Say(fmt.Sprintf("%s has ended, processes that it started go on (%s); recording until those that use CUDA end, too (Ctrl-C or SIGTERM stops recording)",
				r.opts.Program, processList(left[:min(len(left), 5)])))
		}
	}
}

// left lists the processes of the program's tree, ended ones left out.
func (r *recorder) left() []int {
	mark := []byte(r.server.Environ(nil)[0] + "\x00")
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
		// Of a process that has ended the environment is empty.
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
