package tracelog

// Follow makes the reader follow a log that is still being written. At the current end of the
// log Next returns false, and nothing is said to be missing: what is unfinished there may
// still be finished. A later Next goes on with the blocks that have been appended
// since; it reads nothing twice. The log has come to its end when End has its End record.
// A recorder that was killed writes none: once it is known to be gone, call StopFollowing.
//
// Follow must come before the first Next. It is an error where the file cannot tell how
// long it is; those of Open can.
func (r *Reader) Follow() error {
	if r.begun {
		return r.errBegun("followed")
	}
	if err := r.src.SetGrowing(); err != nil {
		return r.fileError(err, "")
	}
	return nil
}

// StopFollowing says that nothing more will be appended to the log. Next then gives what is
// left, and Err and Damage say what is missing at the end.
func (r *Reader) StopFollowing() { r.src.StopGrowing() }
