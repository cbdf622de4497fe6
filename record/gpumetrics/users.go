package gpumetrics

import (
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// usersMax is the most processes beside ours that are named for a GPU.
const usersMax = 64

// users are the processes that share a GPU with the recording. NVML's numbers of processes are those of
// its own PID namespace. They are believed once one of ours is among them.
type users struct {
	own  bool
	seen map[uint32]*tracelog.GPUUser
	told map[uint32]bool
}

// see takes in a list of processes.
func (u *users) see(list []user, o Options) {
	for _, p := range list {
		if o.Known(p.pid) || p.pid == 0 {
			continue
		}
		now := o.now()
		known := u.seen[p.pid]
		if known == nil && len(u.seen) < usersMax {
			if u.seen == nil {
				u.seen, u.told = map[uint32]*tracelog.GPUUser{}, map[uint32]bool{}
			}
			known = &tracelog.GPUUser{User: p.pid, Name: procfs.Name(int(p.pid)), From: now}
			u.seen[p.pid] = known
		}
		if known != nil {
			known.To, known.Bytes = now, max(known.Bytes, p.memory)
		}
	}
}

// log logs the processes that are new.
func (u *users) log(uuid string, log *tracelog.Writer) {
	for _, pid := range slices.Sorted(maps.Keys(u.seen)) {
		if u.own && !u.told[pid] {
			u.told[pid] = true
			u.addUser(u.seen[pid], uuid, log)
		}
	}
}

// finish logs until when each process was there.
func (u *users) finish(uuid string, log *tracelog.Writer) {
	u.log(uuid, log)
	for _, pid := range slices.Sorted(maps.Keys(u.told)) {
		u.addUser(u.seen[pid], uuid, log)
	}
}

func (u *users) addUser(r *tracelog.GPUUser, uuid string, log *tracelog.Writer) {
	r.UUID = uuid
	r.AddTo(log)
}
