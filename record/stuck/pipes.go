package stuck

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// descriptorsMost bounds the descriptors of all processes that are looked at.
const descriptorsMost = 1 << 20

// pipes know which processes have open the ends of pipes. All processes are looked at once, when somebody asks.
type pipes struct {
	ends map[string][]end // by what a descriptor leads to, "pipe:[123]"
}

type end struct {
	pid, fd int
}

// of names the pipe of a descriptor, "" if it is none.
func pipeOf(pid, fd int) string {
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err != nil || !strings.HasPrefix(to, "pipe:") {
		return ""
	}
	return to
}

// others lists the processes beside one that have the writing end of a pipe, or the reading one, as far as this user may know.
func (p *pipes) others(pipe string, pid int, writing bool) (list []int) {
	if p.ends == nil {
		p.look()
	}
	for _, e := range p.ends[pipe] {
		if e.pid != pid && !slices.Contains(list, e.pid) && isFor(e, writing) {
			list = append(list, e.pid)
		}
	}
	return list
}

// isFor reports whether a descriptor is open for writing, or for reading.
func isFor(e end, writing bool) bool {
	text, err := procfs.Read(fmt.Sprintf("/proc/%d/fdinfo/%d", e.pid, e.fd), procfs.MaxFacts)
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(text, []byte("flags:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[0]), 8, 64)
	mode := flags & unix.O_ACCMODE
	return err == nil && (mode == unix.O_RDWR || (mode == unix.O_WRONLY) == writing)
}

func (p *pipes) look() {
	p.ends = map[string][]end{}
	pids, err := procfs.PIDs()
	if err != nil {
		return
	}
	looked := 0
	for _, pid := range pids {
		dir, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd", pid), os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			continue // it has ended, or is another user's
		}
		names, _ := dir.Readdirnames(descriptorsMost - looked)
		_ = dir.Close()
		for _, name := range names {
			fd, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			if pipe := pipeOf(pid, fd); pipe != "" {
				p.ends[pipe] = append(p.ends[pipe], end{pid, fd})
			}
		}
		if looked += len(names); looked >= descriptorsMost {
			return
		}
	}
}
