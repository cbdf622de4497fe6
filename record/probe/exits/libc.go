package exits

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/elfsym"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// libcProbes are the probes on those functions of a libc that end a process.
type libcProbes struct {
	file   procfs.FileID
	probes io.Closer
}

// watchLibc probes the functions of the process's libc that end a process, unless they are
// probed already.
func (w *Watcher) watchLibc(pid int, mappings []procfs.Mapping) error {
	m, found := findLibc(mappings)
	if !found {
		return fmt.Errorf("process %d has no libc.so.6: its _exit and exec are not noticed in time", pid)
	}
	old := w.libc[pid]
	if old != nil && old.file == m.File {
		return nil
	}
	probes, err := w.attachLibc(pid, m)
	if err != nil {
		return err
	}
	w.libc[pid] = &libcProbes{file: m.File, probes: probes}
	if old != nil {
		return old.probes.Close()
	}
	return nil
}

// findLibc finds glibc by its file name: libc.so.6, or libc-2.31.so up to release 2.33.
func findLibc(mappings []procfs.Mapping) (procfs.Mapping, bool) {
	for _, m := range mappings {
		base := filepath.Base(m.Path)
		if older, _ := filepath.Match("libc-[0-9]*.so", base); older || base == "libc.so.6" {
			return m, true
		}
	}
	return procfs.Mapping{}, false
}

func (w *Watcher) attachLibc(pid int, m procfs.Mapping) (io.Closer, error) {
	f, err := m.Open(pid)
	if err != nil {
		return nil, fmt.Errorf("no probes on %s: %w", m.Path, err)
	}
	defer f.Close()
	sites, err := libcSites(f)
	if err != nil {
		return nil, fmt.Errorf("no probes on %s: %w", m.Path, err)
	}
	probes, err := uprobe.AttachEntries(w.mode, w.programs.Programs[w.libcProgram()], procfs.OpenFile(f), sites, pid)
	if err != nil {
		return nil, uprobe.AttachError(m.Path, err)
	}
	return probes, nil
}

// libcProgram is the name of the program for libc's functions in the watcher's mode.
func (w *Watcher) libcProgram() string {
	if w.mode == uprobe.Single {
		return bpf.ProbesProgEndingSingle
	}
	return bpf.ProbesProgEndingMulti
}

// libcFunctions are the functions of libc that end a process, each with its bpf.End constant.
var libcFunctions = map[string]uint64{
	"_exit": bpf.EndExit, "_Exit": bpf.EndExit,
	"execve": bpf.EndExec, "execveat": bpf.EndExec, "fexecve": bpf.EndExec,
}

// libcSites finds those functions in libc, each address once.
func libcSites(f *os.File) ([]uprobe.Site, error) {
	found, err := elfsym.Exported(f, maps.Keys(libcFunctions))
	if err != nil {
		return nil, err
	}
	if found["_exit"] == 0 {
		return nil, errors.New("it does not export _exit")
	}
	signs := map[uint64]uint64{}
	for name, offset := range found {
		signs[offset] = libcFunctions[name]
	}
	var sites []uprobe.Site
	for offset, sign := range signs {
		sites = append(sites, uprobe.Site{Cookie: sign, Offset: offset})
	}
	return sites, nil
}
