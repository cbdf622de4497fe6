package probe

import (
	"os"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/must"
)

// The reduced types have every member that the program reads, where the kernel's full
// description has it.
func TestKernelTypes(t *testing.T) {
	raw, err := os.ReadFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		t.Skip(err)
	}
	k := must.Get(parseKernelTypes(raw))(t)
	spec := must.Get(bpf.LoadProbes())(t)
	reduced := must.Get(k.reduce(spec.Types))(t)
	full := must.Get(btf.LoadKernelSpec())(t)
	for _, name := range kernelStructs {
		var own, got, want *btf.Struct
		for from, to := range map[*btf.Spec]**btf.Struct{spec.Types: &own, reduced: &got, full: &want} {
			if err := from.TypeByName(name, to); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if got.Size != want.Size || len(got.Members) != len(own.Members) {
			t.Errorf("%s has %d bytes and %d members, want %d and %d", name, got.Size, len(got.Members), want.Size, len(own.Members))
		}
		for _, m := range got.Members {
			if at, ok := offsetOf(want, m.Name); !ok || at != m.Offset {
				t.Errorf("%s.%s is at %d, want %d", name, m.Name, m.Offset, at)
			}
		}
	}
}

// offsetOf finds a member, also in structs without a name.
func offsetOf(s *btf.Struct, name string) (btf.Bits, bool) {
	for _, m := range s.Members {
		if m.Name == name {
			return m.Offset, true
		}
		inner, ok := btf.UnderlyingType(m.Type).(*btf.Struct)
		if m.Name != "" || !ok {
			continue
		}
		if at, ok := offsetOf(inner, name); ok {
			return m.Offset + at, true
		}
	}
	return 0, false
}

func FuzzKernelTypes(f *testing.F) {
	sigset := &btf.Struct{Size: 8, Members: []btf.Member{{Name: "sig", Type: &btf.Int{Name: "long", Size: 8}}}}
	task := &btf.Struct{Name: "task_struct", Size: 64, Members: []btf.Member{
		{Name: "exit_code", Type: &btf.Const{Type: &btf.Int{Name: "int", Size: 4}}},
		{Name: "", Type: &btf.Union{Size: 8, Members: []btf.Member{{Name: "blocked", Type: &btf.Typedef{Name: "sigset_t", Type: sigset}}}}, Offset: 64},
	}}
	task.Members = append(task.Members, btf.Member{Name: "group_leader", Type: &btf.Pointer{Target: task}, Offset: 128})
	b := must.Get(btf.NewBuilder([]btf.Type{task}, nil))(f)
	whole := must.Get(b.Marshal(nil, nil))(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(whole[:20])
	f.Add([]byte("\x9f\xeb\x01\x00\xff\xff\xff\xff0123456789012345"))
	spec := must.Get(bpf.LoadProbes())(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := parseKernelTypes(raw)
		if err != nil {
			return
		}
		reduced, err := k.reduce(spec.Types)
		if (reduced == nil) == (err == nil) {
			t.Errorf("types %v and error %v", reduced, err)
		}
	})
}
