"""``discorank train KIND``, in a room that no other command imports."""
