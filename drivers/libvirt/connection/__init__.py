"""The connection to libvirt: opened, asked, watched; and the files of the host."""
