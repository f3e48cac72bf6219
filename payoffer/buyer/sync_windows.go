package buyer

// syncFolder does nothing: the file system keeps its names itself.
func syncFolder(string) error { return nil }
