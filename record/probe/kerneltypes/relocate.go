// Package kerneltypes fits the eBPF program to the running kernel. The input is the program.
// The output is the types that the loader needs to relocate it: the few types of the kernel
// that the program uses. The loader can read all of the kernel's type information itself, but
// that took most of the loading time.
package kerneltypes

import (
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
)

// structs are the kernel's structs that the eBPF program reads. The program's own type
// information has the members that it reads.
var structs = []string{
	"ns_common", "pid_namespace", "upid", "pid", "sigaction", "k_sigaction", "sighand_struct", "signal_struct",
	"return_instance", "uprobe_task", "task_struct",
}

// sessionFunction is the function of the kernel that the program calls.
const sessionFunction = "bpf_session_is_return"

// Relocate returns options that load spec with the types of the running kernel. It also puts
// the number of the kernel's function into the calls of it in spec.
func Relocate(spec *ebpf.CollectionSpec) (ebpf.CollectionOptions, error) {
	var o ebpf.CollectionOptions
	raw, release, err := mapFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		return o, fmt.Errorf("the kernel does not describe its types: %w", err)
	}
	defer release()
	k, err := parse(raw)
	if err != nil {
		return o, fmt.Errorf("the kernel's description of its types: %w", err)
	}
	o.Programs.KernelTypes, err = k.reduce(spec.Types)
	if k.sessionNumber != 0 {
		numberCalls(spec, k.sessionNumber)
	}
	return o, err
}

// mapFile maps a file, or reads it if the kernel is too old to map it.
func mapFile(path string) (raw []byte, release func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	raw, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err == nil {
		return raw, func() error { return unix.Munmap(raw) }, nil
	}
	raw, err = io.ReadAll(f)
	return raw, func() error { return nil }, err
}

// numberCalls puts the kernel's number of sessionFunction into its calls. If the kernel has no
// such function, the loader says so.
func numberCalls(spec *ebpf.CollectionSpec, number uint32) {
	if p := spec.Programs[bpf.ProbesProgCallSession]; p != nil {
		for i, ins := range p.Instructions {
			if ins.IsKfuncCall() {
				p.Instructions[i] = asm.Instruction{OpCode: ins.OpCode, Src: asm.PseudoKfuncCall, Constant: int64(number)}.WithSource(ins.Source())
			}
		}
	}
}
