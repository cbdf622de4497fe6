package chromesink

import (
	"fmt"
	"strconv"
	"strings"

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

// versions writes CUDA's versions as numbers: 13000 for 13.0.
func (f *file) versions(log *timeline.Metadata) {
	if v, err := strconv.ParseUint(log.CUPTI, 10, 32); err == nil {
		f.member("cupti_version", strconv.AppendUint(nil, v, 10))
	}
	for _, v := range []struct{ name, text string }{{"cuda_runtime_version", f.process.Runtime}, {"cuda_driver_version", log.Driver}} {
		if number := cudaVersion(v.text); number != 0 {
			f.member(v.name, strconv.AppendUint(nil, number, 10))
		}
	}
}

// cudaVersion is the number of a version with a major and a minor part, 0 for any other text.
func cudaVersion(text string) uint64 {
	parts := strings.Split(text, ".")
	if len(parts) < 2 {
		return 0
	}
	major, err := strconv.ParseUint(parts[0], 10, 16)
	minor, err2 := strconv.ParseUint(parts[1], 10, 16)
	if err != nil || err2 != nil {
		return 0
	}
	return major*1000 + minor*10
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
