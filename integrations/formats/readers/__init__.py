"""The formats of files with candidate lists or documents, each declared where it is read and written."""
