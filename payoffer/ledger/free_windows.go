package ledger

import "golang.org/x/sys/windows"

// free is the room on the disk of a folder for this process, in bytes; -1 where that is
// not known.
func free(folder string) int64 {
	name, err := windows.UTF16PtrFromString(folder)
	var room uint64
	if err != nil || windows.GetDiskFreeSpaceEx(name, &room, nil, nil) != nil {
		return -1
	}
	return int64(room)
}
