package chromesink

import (
	"fmt"
	"strconv"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// header writes what comes before the events, a line a member. A blank follows the colons of what
// Kineto writes: a reader finds the rank by a pattern.
func (f *file) header(log *timeline.Metadata) {
	f.b = append(f.b, "{\n"...)
	f.member("schemaVersion", []byte("1"))
	if log != nil {
		f.versions(log)
	}
	if f.process.Host != "" {
		f.member("host_name", figures.AppendJSON(nil, f.process.Host))
	}
	if f.process.Rank.Known {
		f.member("distributedInfo", distributedInfo(f.process))
	}
	f.member("displayTimeUnit", []byte(`"ms"`))
	if f.clock.base != 0 {
		f.member("baseTimeNanoseconds", strconv.AppendUint(nil, f.clock.base, 10))
	}
	if log != nil {
		f.member("otherData", otherData(f.process, log))
	}
	f.b = append(f.b, `"traceEvents": [`...)
}

func (f *file) member(name string, json []byte) {
	f.b = fmt.Appendf(f.b, "%q: %s,\n", name, json)
}

// versions writes the versions that are known.
func (f *file) versions(log *timeline.Metadata) {
	for _, v := range []struct {
		name   string
		number uint32
	}{
		{"cupti_version", uint32(log.CUPTI)},
		{"cuda_runtime_version", uint32(f.process.CUDA)},
		{"cuda_driver_version", uint32(log.Driver)},
	} {
		if v.number != 0 {
			f.member(v.name, strconv.AppendUint(nil, uint64(v.number), 10))
		}
	}
}

// distributedInfo names the place of a process in a distributed program, as far as it is known. NCCL is
// the backend where the process has loaded it.
func distributedInfo(p *timeline.Process) []byte {
	b := []byte("{")
	if p.NCCL != "" {
		b = append(b, `"backend": "nccl", `...)
	}
	b = fmt.Appendf(b, `"rank": %d`, p.Rank.Number)
	if p.Rank.Of != 0 {
		b = fmt.Appendf(b, `, "world_size": %d`, p.Rank.Of)
	}
	if p.NCCL != "" {
		b = figures.AppendJSON(append(b, `, "nccl_version": `...), p.NCCL)
	}
	return append(b, '}')
}

// otherData has the facts of the log and of the process, as text.
func otherData(p *timeline.Process, log *timeline.Metadata) []byte {
	o := object{b: []byte("{")}
	for _, f := range log.Facts() {
		o.string(f.Name, f.Text)
	}
	for _, f := range p.Facts() {
		o.string("process "+f.Name, f.Text)
	}
	return append(o.b, '}')
}
