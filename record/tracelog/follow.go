package tracelog

// Follow makes the reader follow a log that is still being written. At the current end of the
// log Next returns false, and an unfinished block there is no damage. A later Next goes on
// with the blocks that have been appended since; it reads nothing twice. The log is finished
// when End has its End record. A recorder that was killed writes none: when the caller knows
// that it is gone, it calls StopFollowing.
//
// Follow must come before the first Next. It fails where the file cannot tell its length; the
// files of Open can.
func (r *Reader) Follow() error {
	if r.begun {
		return r.errBegun("followed")
	}
	if err := r.src.SetGrowing(); err != nil {
		return r.fileError(err, "")
	}
	return nil
}

// StopFollowing tells the reader that nothing more will be appended to the log. Next then
// gives the blocks that are left, and Err and Damage say what is missing at the end.
func (r *Reader) StopFollowing() { r.src.StopGrowing() }
