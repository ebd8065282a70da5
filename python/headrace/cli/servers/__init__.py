"""Commands about MySQL and MariaDB servers."""
